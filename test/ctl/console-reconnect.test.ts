/** Behaviour of the client's console when its connection ends. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { ConnectionFailed } from '../../src/client/connection-failed.ts'
import { limits } from '../../src/config/limits.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { attached, problem, startConsoleServer } from './support/console-server.ts'
import { HeldClock } from '../fakes/held-clock.ts'
import { attacher, TTY, watcher } from './support/watched-console.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { Served } from './support/console-server.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const watch = watcher(() => pki)
const attachedOnce = attacher(() => pki)

for (const [what, end] of [
  ['breaks', (served) => served.ws.terminate()],
  ['is closed by a daemon that stops', (served) => served.ws.close(1001, 'daemon_stops')],
  ['was too slow', (served) => served.ws.close(1013, 'viewer_behind')],
] satisfies readonly (readonly [string, (served: Served) => void])[]) {
  test(`a connection that ${what} is made again from where its output ended`, async (t) => {
    const server = await startConsoleServer(t, pki)
    const clock = new HeldClock()
    const watched = watch(t, server, TTY, clock)
    const first = await server.connection(0)
    first.deliver(attached('s1', 10))
    first.say('abc')
    await eventually(() => watched.output() === 'abc')
    end(first)
    // A connection that was too slow is not lost, so there is no pause.
    const isAway = what !== 'was too slow'
    if (isAway) await clock.wake(limits.clientReconnectMsMin)
    const second = await server.connection(1)
    assert.equal(second.query.get('session'), 's1')
    assert.equal(second.query.get('since'), '13')
    second.deliver(attached('s1', 13))
    second.say('def')
    await eventually(() => watched.output() === 'abcdef')
    const again = watched.events.filter((event) => event.kind === 'attached').map((event) => event.again)
    assert.deepEqual(again, [false, true])
    assert.equal(watched.kinds().filter((kind) => kind === 'away').length, isAway ? 1 : 0)
  })
}

test('a connection that had lasted is made again at once, without a message', async (t) => {
  const { server, clock, watched, first } = await attachedOnce(t)
  clock.nowMs = 60_000
  first.ws.terminate()
  const second = await server.connection(1)
  second.deliver(attached('s1', 0))
  await eventually(() => watched.kinds().length === 3)
  assert.deepEqual(watched.kinds(), ['attached', 'lost', 'attached'])
})

test('the pauses for a restarted listener grow, one message appears, and typed input arrives', async (t) => {
  const { server, clock, watched } = await attachedOnce(t)
  await server.stop()
  await eventually(() => watched.kinds().includes('away'))
  void watched.console.write(Buffer.from('typed meanwhile'))
  for (const pauseMs of [100, 200, 400, 800, 1600, 2000, 2000]) await clock.wake(pauseMs)
  await clock.asleep(2000)
  const next = await startConsoleServer(t, pki, server.port)
  next.refusals.push(problem(503, 'starting_up', true), problem(429, 'console_viewers_full', true))
  for (let tries = 0; tries < 3; tries += 1) await clock.wake(2000)
  const second = await next.connection(0)
  second.deliver(attached('s1', 0))
  await eventually(() => second.input() === 'typed meanwhile')
  assert.equal(watched.kinds().filter((kind) => kind === 'away').length, 1)
})

test('input typed for a session that is over reaches no other session', async (t) => {
  const { server, clock, watched, first } = await attachedOnce(t)
  first.ws.terminate()
  await eventually(() => watched.kinds().includes('away'))
  void watched.console.write(Buffer.from('reboot\n'))
  await clock.wake(limits.clientReconnectMsMin)
  const second = await server.connection(1)
  second.deliver(attached('s2', 0))
  await eventually(() => watched.kinds().filter((kind) => kind === 'attached').length === 2)
  void watched.console.write(Buffer.from('new'))
  await eventually(() => second.input() === 'new')
})

test('a VM that stopped or moved while the daemon was away has ended, and so has one that is gone', async (t) => {
  for (const [refused, code] of [
    [problem(409, 'vm_not_running'), 'vm_stopped'],
    [problem(409, 'vm_migrated'), 'vm_moved'],
    [problem(404, 'not_found'), 'vm_deleted'],
  ] as const) {
    const { server, clock, watched, first } = await attachedOnce(t)
    server.refusals.push(refused)
    first.ws.close(1001, 'daemon_stops')
    await clock.wake(limits.clientReconnectMsMin)
    await watched.ended
    assert.deepEqual(watched.events.at(-1), { kind: 'closed', close: { status: 1000, code, words: '' } })
  }
})

test('a shell ends with its connection, whatever ended it', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server, { vm: 'web-1', mode: 'ssh', user: 'admin', acceptHostKey: 'SHA256:x' })
  const served = await server.connection(0)
  assert.deepEqual(Object.fromEntries(served.query), {
    mode: 'ssh',
    user: 'admin',
    accept_host_key: 'SHA256:x',
  })
  served.deliver({ attached: { mode: 'ssh' } })
  await eventually(() => watched.kinds().includes('attached'))
  served.ws.terminate()
  await watched.ended
  assert.deepEqual(watched.events.at(-1), { kind: 'closed', close: { status: 1006, code: '', words: '' } })
})

test('a peer that vanished silently is noticed by its silence', async (t) => {
  const server = await startConsoleServer(t, pki)
  const clock = new HeldClock()
  const watched = watch(t, server, TTY, clock)
  const first = await server.connection(0)
  let isCut = false
  first.ws.on('close', () => (isCut = true))
  first.deliver(attached('s1', 0))
  await eventually(() => watched.kinds().includes('attached'))
  while (clock.nowMs <= limits.clientConsoleSilentMs) {
    assert.ok(!isCut, `after ${clock.nowMs} ms`)
    clock.nowMs += limits.consolePingMs
    await clock.wake(limits.consolePingMs)
  }
  // The connection had lasted, and is made again at once.
  assert.equal((await server.connection(1)).query.get('session'), 's1')
})

test('another server in the place of the daemon ends the console', async (t) => {
  const { server, clock, watched } = await attachedOnce(t)
  await server.stop()
  const stranger = await makePki()
  await startConsoleServer(t, { ...pki, server: stranger.server }, server.port)
  await clock.wake(limits.clientReconnectMsMin)
  await assert.rejects(
    watched.ended,
    (error) => error instanceof ConnectionFailed && error.kind === 'untrusted',
  )
})

test('a client that leaves closes the session, even while the daemon is away', async (t) => {
  const server = await startConsoleServer(t, pki)
  const watched = watch(t, server)
  const served = await server.connection(0)
  let status = 0
  served.ws.on('close', (code) => (status = code))
  served.deliver(attached('s1', 0))
  await eventually(() => watched.kinds().includes('attached'))
  watched.console.close()
  await watched.ended
  await eventually(() => status === 1000)
  const away = watch(t, server)
  const second = await server.connection(1)
  second.deliver(attached('s1', 0))
  await eventually(() => away.kinds().includes('attached'))
  await server.stop()
  await eventually(() => away.kinds().includes('away'))
  away.console.close()
  await away.ended
})
