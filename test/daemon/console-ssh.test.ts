import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { SshShells } from '../../src/host/ssh/ssh-shells.ts'
import { newSshKey, SshServer } from '../contract/ssh-server.ts'
import { until } from '../contract/until.ts'
import { fakeHostKey } from '../fakes/fake-guest-shells.ts'
import { createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { dial, refused, TestViewer, watch, WEB } from './support/console-viewer.ts'
import type { TestContext } from 'node:test'
import type { ObservedState } from '../../src/core/vm/record.ts'
import type { GuestShells } from '../../src/ports/guest-shells.ts'
import type { FakeGuest, FakeShell } from '../fakes/fake-guest-shells.ts'
import type { ControllerHost, Json, Pki } from './support/controller-host.ts'

const ADDRESS = '192.0.2.10'

let pki: Pki
before(async () => {
  pki = await makePki()
})

type Stage = {
  readonly host: ControllerHost
  readonly guest: FakeGuest
  /** A viewer that has a shell in web-1. */
  readonly view: (query?: string) => Promise<TestViewer>
  /** Connects a viewer that asks for a shell. */
  readonly ask: (query?: string) => TestViewer
  /** Returns the problem that the viewer gets instead. */
  readonly refusal: (query?: string) => Promise<Json>
  readonly observe: (state: ObservedState) => void
}

async function stageOn(t: TestContext, changes: object = {}, shells?: GuestShells): Promise<Stage> {
  const host = await startControllerHost(t, pki, shells === undefined ? {} : { shells })
  const created = await host.call({ method: 'PUT', path: '/v1/vms/web-1', body: createBody(changes) })
  assert.equal(created.status, 202, created.text)
  const observe = (state: ObservedState): void => {
    host.store.vms.recordProgress(WEB, { observed: { state, sinceMs: 1000 }, nowMs: 2000 })
  }
  observe('running')
  const dialling = (query: string) => ({ query: `?mode=ssh${query}` })
  return {
    host,
    guest: host.guests.guest(ADDRESS),
    view: (query = '') => watch(t, host, pki, dialling(query)),
    ask: (query = '') => new TestViewer(dial(host, pki, dialling(query))),
    refusal: async (query = '') => (await refused(host, pki, dialling(query))).json,
    observe,
  }
}

const closeOf = async (viewer: TestViewer): Promise<string> => {
  const { status, reason } = await viewer.ended()
  return `${status} ${reason}`
}

const shellIn = ({ guest }: Stage): FakeShell => {
  const shell = guest.shells.at(-1)
  assert.ok(shell !== undefined)
  return shell
}

test('a viewer works in a shell of its own: input, output and window size pass between them', async (t) => {
  const stage = await stageOn(t)
  const viewer = await stage.view('&cols=120&rows=40')
  const shell = shellIn(stage)
  viewer.type('ls\r')
  viewer.send({ resize: { cols: 100, rows: 50 } })
  await until(
    () => shell.sizes.length,
    (count) => count === 2,
  )
  assert.equal(shell.input.toString(), 'ls\r')
  assert.deepEqual(shell.sizes, [
    { cols: 120, rows: 40 },
    { cols: 100, rows: 50 },
  ])
  shell.say('file\r\n')
  await viewer.shows('file\r\n')
  assert.deepEqual(viewer.texts, [{ attached: { mode: 'ssh' } }], 'and that came first')
})

test('a terminal has 80 columns and 24 rows by default, and its user is root', async (t) => {
  const stage = await stageOn(t)
  await stage.view()
  assert.deepEqual(shellIn(stage).sizes, [{ cols: 80, rows: 24 }])
  assert.match(stage.host.logLines.join(''), /"vm_id":"web-1","user":"root".*shell in a guest opened/)
})

test('a shell has no position, and says so; the session continues', async (t) => {
  const stage = await stageOn(t)
  const viewer = await stage.view()
  viewer.send({ position: {} })
  const messages = await until(
    () => viewer.texts,
    ({ length }) => length === 2,
  )
  assert.equal(messages[1].error.code, 'invalid_message')
  viewer.type('still here')
  await until(
    () => shellIn(stage).input.toString(),
    (text) => text === 'still here',
  )
})

const ends = [
  [{ kind: 'exited', status: 7 }, '1000 shell_ended: exit status 7'],
  [{ kind: 'killed', signal: 'SIGTERM' }, '1000 shell_ended: killed by SIGTERM'],
  [{ kind: 'lost', because: 'the guest no longer answers' }, '1011 ssh_lost: the guest no longer answers'],
] as const
for (const [end, close] of ends) {
  test(`the end of the shell is reported after its last output: ${close}`, async (t) => {
    const stage = await stageOn(t)
    const viewer = await stage.view()
    shellIn(stage).say('bye')
    shellIn(stage).end(end)
    assert.equal(await closeOf(viewer), close)
    assert.equal(viewer.text, 'bye')
  })
}

const failures = [
  ['no_route', /^1011 ssh_no_route: /],
  ['refused', /^1011 ssh_refused: /],
  ['timed_out', /^1011 ssh_timed_out: /],
  ['key_refused', /^1011 ssh_key_refused: /],
  ['shell_refused', /^1011 ssh_shell_refused: /],
  ['failed', /^1011 ssh_failed: /],
] as const
for (const [kind, close] of failures) {
  test(`a shell that cannot be opened is reported after the upgrade, as the reason of the close: ${kind}`, async (t) => {
    const stage = await stageOn(t)
    stage.guest.failing = kind
    const viewer = stage.ask()
    assert.match(await closeOf(viewer), close)
    assert.deepEqual(viewer.texts, [])
    assert.equal(stage.host.sessions.taken(WEB), 0)
  })
}

test('a VM without an address cannot have a shell', async (t) => {
  const stage = await stageOn(t, { network: {} })
  assert.equal(await closeOf(stage.ask()), '1011 ssh_no_address')
})

test('a VM that does not run is a problem before the upgrade', async (t) => {
  const stage = await stageOn(t)
  stage.observe('stopped')
  const problem = await stage.refusal()
  assert.deepEqual([problem.status, problem.code], [409, 'vm_not_running'])
  assert.equal(stage.guest.shells.length, 0)
})

test('a changed host key is a problem before the upgrade, and its fingerprint can be accepted', async (t) => {
  const stage = await stageOn(t)
  const first = stage.guest.hostKey
  await stage.view()
  const changed = `SHA256:${'+/'.repeat(21)}A`
  stage.guest.hostKey = changed
  const problem = await stage.refusal()
  assert.deepEqual([problem.status, problem.code], [409, 'ssh_host_key_changed'])
  assert.ok(problem.detail.includes(changed) && problem.detail.includes(first), problem.detail)
  const [query] = /accept_host_key=\S+$/.exec(problem.detail) ?? []
  assert.ok(query !== undefined)
  const other = await stage.refusal(`&accept_host_key=${fakeHostKey(9)}`)
  assert.equal(other.code, 'ssh_host_key_changed')
  await stage.view(`&${query}`)
  await stage.view()
  assert.equal(stage.host.store.sshHostKeys.get(WEB), changed)
})

/** Returns what the audit trail has of shells. */
const shellTrail = ({ host }: Stage): Json[] =>
  host.logLines
    .map((line): Json => JSON.parse(line))
    .filter(({ level, action }) => level === 'audit' && action === 'openConsole')
    .map(({ message, outcome, certificate_name, vm_id, mode, guest_user, ...rest }) => {
      const { accepted_host_key, host_key, former_host_key } = rest
      assert.deepEqual([certificate_name, vm_id, mode], ['vmhost-controller', 'web-1', 'ssh'])
      return [message, outcome, guest_user, accepted_host_key, host_key, former_host_key]
    })

test('the audit trail has the user in the guest, and each host key that was pinned or accepted', async (t) => {
  const stage = await stageOn(t)
  const [first, second] = [stage.guest.hostKey, fakeHostKey(7)]
  stage.guest.users = ['root', 'anna']
  await stage.view('&user=anna')
  stage.guest.hostKey = second
  await stage.refusal()
  const accepting = `&accept_host_key=${second.replaceAll('+', '%2B')}`
  await stage.view(accepting)
  await stage.view()
  stage.guest.failing = 'refused'
  await closeOf(stage.ask())
  assert.deepEqual(shellTrail(stage), [
    ['SSH host key pinned', 'accepted', 'anna', undefined, first, undefined],
    ['console opened', 'accepted', 'anna', undefined, undefined, undefined],
    ['request audited', 'refused', 'root', undefined, undefined, undefined],
    ['SSH host key pinned', 'accepted', 'root', second, second, first],
    ['console opened', 'accepted', 'root', second, undefined, undefined],
    ['console opened', 'accepted', 'root', undefined, undefined, undefined],
    ['console not opened', 'failed', 'root', undefined, undefined, undefined],
  ])
})

test('a host key that is accepted without a console is in the audit trail too', async (t) => {
  const stage = await stageOn(t)
  const hostKey = stage.guest.hostKey.replaceAll('+', '%2B')
  await stage.host.call({ path: `/v1/vms/web-1/console?mode=ssh&accept_host_key=${hostKey}` })
  assert.deepEqual(shellTrail(stage), [
    ['SSH host key pinned', 'accepted', 'root', stage.guest.hostKey, stage.guest.hostKey, undefined],
    ['request audited', 'refused', 'root', stage.guest.hostKey, undefined, undefined],
  ])
})

test('sixteen shells are served, and the seventeenth is refused until one of them ends', async (t) => {
  const stage = await stageOn(t)
  const viewers: TestViewer[] = []
  for (let count = 0; count < limits.consoleViewersMax; count += 1) {
    viewers.push(await stage.view())
  }
  const problem = await stage.refusal()
  assert.deepEqual([problem.status, problem.code], [429, 'console_viewers_full'])
  viewers[3]?.socket.terminate()
  await until(
    () => stage.host.sessions.taken(WEB),
    (taken) => taken < limits.consoleViewersMax,
  )
  assert.equal(stage.guest.shells[3]?.isClosed, true)
  await stage.view()
})

test('a viewer that leaves while its shell is opened leaves nothing behind', async (t) => {
  const stage = await stageOn(t)
  const release = stage.host.guests.holdNext()
  const viewer = stage.ask()
  await until(
    () => stage.host.sessions.taken(WEB),
    (taken) => taken === 1,
  )
  viewer.socket.terminate()
  // The guest has not answered yet.
  await until(
    () => stage.host.sessions.taken(WEB),
    (taken) => taken === 0,
  )
  release()
  assert.equal(stage.guest.shells.length, 0)
})

test('a request without an upgrade is refused for the same reasons, and leaves nothing on its connection', async (t) => {
  const stage = await stageOn(t)
  const warnings: string[] = []
  const onWarning = ({ message }: Error): void => void warnings.push(message)
  process.on('warning', onWarning)
  t.after(() => process.off('warning', onWarning))
  const path = `/v1/vms/${WEB}/console?mode=ssh`
  // Node warns above this number of listeners of one kind.
  for (let count = 0; count < 12; count += 1) assert.equal((await stage.host.call({ path })).status, 426)
  assert.deepEqual(warnings, [])
  assert.equal(stage.host.sessions.taken(WEB), 0)
  stage.guest.hostKey = fakeHostKey(9)
  assert.equal((await stage.host.call({ path })).json.code, 'ssh_host_key_changed')
})

test('a ping that waits behind the output of a shell does not keep it held back', async (t) => {
  const stage = await stageOn(t)
  const viewer = await stage.view()
  const shell = shellIn(stage)
  const said = Buffer.alloc(limits.consoleShellAheadBytesMax + 1, 'y')
  // Both in one turn: the output is under way as one write, and the ping waits behind it.
  shell.say(said)
  assert.equal(shell.isPaused, true)
  stage.host.clock.advance(limits.consolePingMs)
  await until(
    () => shell.isPaused,
    (isPaused) => !isPaused,
  )
  await until(
    () => viewer.bytes.length,
    (length) => length === said.length,
  )
})

test('a viewer that does not read holds its shell back, and misses nothing', async (t) => {
  const stage = await stageOn(t)
  const viewer = await stage.view()
  const shell = shellIn(stage)
  viewer.socket.pause()
  const piece = Buffer.alloc(32 * 1024, 'y')
  let written = 0
  await until(
    () => {
      shell.say(piece)
      written += piece.length
      return shell.isPaused
    },
    (isPaused) => isPaused,
  )
  for (let count = 0; count < 100; count += 1) shell.say(piece)
  written += 100 * piece.length
  assert.equal(viewer.socket.readyState, viewer.socket.OPEN)
  viewer.socket.resume()
  await until(
    () => viewer.bytes.length,
    (bytes) => bytes === written,
  )
  assert.equal(shell.isPaused, false)
})

test('a viewer that cannot stop reading has its shell held back, and misses nothing', async (t) => {
  const stage = await stageOn(t)
  const viewer = await stage.view()
  const shell = shellIn(stage)
  viewer.send({ output: { paused: true } })
  await until(
    () => shell.isPaused,
    (isPaused) => isPaused,
  )
  shell.say('later')
  // That another message has left does not end the hold.
  viewer.send({ position: {} })
  await viewer.message(1)
  assert.equal(shell.isPaused, true)
  assert.equal(viewer.bytes.length, 0)
  viewer.send({ output: { paused: false } })
  await viewer.shows('later')
})

test('a guest that does not read its input holds its viewer back, and misses nothing', async (t) => {
  const stage = await stageOn(t)
  const viewer = await stage.view()
  const shell = shellIn(stage)
  shell.readInput(false)
  const sent = 8 * 1024 * 1024
  for (let at = 0; at < sent; at += 32 * 1024) viewer.type(Buffer.alloc(32 * 1024, at))
  await until(
    () => shell.inputWaiting,
    (waiting) => waiting > limits.consoleInputBytesMax,
  )
  // Input that was read before the pause still arrives: at most the buffer of one socket.
  assert.ok(
    shell.inputWaiting < limits.consoleInputBytesMax + 1024 * 1024,
    `${shell.inputWaiting} bytes wait`,
  )
  shell.readInput(true)
  await until(
    () => shell.input.length,
    (length) => length === sent,
  )
})

test('a VM that stops and a daemon that stops end their shells with the reason', async (t) => {
  const stage = await stageOn(t)
  const first = await stage.view()
  stage.observe('stopped')
  assert.equal(await closeOf(first), '1000 vm_stopped')
  stage.observe('running')
  const second = await stage.view()
  stage.host.sessions.end()
  assert.equal(await closeOf(second), '1001 daemon_stops')
})

test('a session works with a real SSH server: log in, type, resize, leave', async (t) => {
  const key = newSshKey()
  const server = await SshServer.start(key.publicKey)
  t.after(() => server.stop())
  const driver = new SshShells({ ...key, port: server.port })
  const onLoopback: GuestShells = {
    open: (request, signal) => driver.open({ ...request, address: '127.0.0.1' }, signal),
  }
  const stage = await stageOn(t, {}, onLoopback)
  const viewer = await stage.view('&cols=99&rows=33')
  const [shell] = server.shells
  assert.ok(shell !== undefined)
  assert.equal(stage.host.store.sshHostKeys.get(WEB), server.fingerprint)
  viewer.type('hello')
  viewer.send({ resize: { cols: 50, rows: 20 } })
  await until(
    () => shell.sizes.length,
    (count) => count === 2,
  )
  assert.deepEqual([shell.input.toString(), shell.sizes[0]], ['hello', { cols: 99, rows: 33 }])
  shell.say('x'.repeat(3_000_000))
  shell.end({ kind: 'exited', status: 4 })
  assert.equal(await closeOf(viewer), '1000 shell_ended: exit status 4')
  assert.equal(viewer.bytes.length, 3_000_000)
  assert.match(await closeOf(stage.ask('&user=nobody')), /^1011 ssh_key_refused: /)
  server.changeHostKey()
  assert.equal((await stage.refusal()).code, 'ssh_host_key_changed')
  await server.stop()
  assert.match(await closeOf(stage.ask()), /^1011 ssh_refused: /)
  assert.ok(!stage.host.logLines.join('').includes('PRIVATE'), 'and no key in the log')
})
