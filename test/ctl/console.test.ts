/** `vmhostctl console` at a terminal in memory, against a daemon that the test plays. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { HeldClock } from '../fakes/held-clock.ts'
import { attached, problem, startConsoleServer } from './support/console-server.ts'
import { ctl, startCtl, writeProfile } from './support/ctl-stage.ts'
import { FakeTerminal } from './support/fake-terminal.ts'
import type { TestContext } from 'node:test'
import type { Shell } from '../../src/ctl/shell.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { ConsoleServer, Served } from './support/console-server.ts'
import type { Running } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

type Stage = {
  readonly server: ConsoleServer
  /** Runs the command on the terminal. */
  readonly start: (line: string, terminal: FakeTerminal, shell?: Partial<Shell>) => Running
}

async function startStage(t: TestContext): Promise<Stage> {
  const server = await startConsoleServer(t, pki)
  const profile = writeProfile(t, { pki, url: server.url })
  const start = (line: string, terminal: FakeTerminal, shell: Partial<Shell> = {}): Running => {
    // Hangs up even after a failed test, so that nothing runs on.
    t.after(() => terminal.hangUp())
    const argv = [...line.split(' '), '--profile', profile]
    return startCtl(argv, { shell: { ...shell, openTerminal: () => terminal } })
  }
  return { server, start }
}

type Attached = Running & { readonly served: Served; readonly terminal: FakeTerminal }

/** Attaches a console of web-1 whose session has begun. */
async function attach(
  { server, start }: Stage,
  { terminal = new FakeTerminal(), options = '' } = {},
): Promise<Attached> {
  const running = start(`console web-1${options}`, terminal)
  const served = await server.connection(server.served.length)
  served.deliver(attached('s1', 0))
  await eventually(() => terminal.isHeard)
  return { ...running, served, terminal }
}

test('the console shows the guest, sends keys raw, and restores the terminal when its user leaves', async (t) => {
  const { terminal, served, result, printed } = await attach(await startStage(t))
  assert.equal(terminal.isRaw, true)
  assert.match(printed(), /^vmhostctl: the console of web-1; ~\. at the start of a line leaves/)
  assert.equal(served.query.get('cols'), '80')
  served.say('login: ')
  await eventually(() => terminal.shown() === 'login: ')
  terminal.type('root\r')
  terminal.type('\u0003')
  await eventually(() => served.input() === 'root\r\u0003')
  terminal.type('\r~.')
  const { status, err } = await result
  assert.equal(status, 0)
  assert.match(err, /vmhostctl: left the console of web-1\r\n$/)
  assert.deepEqual([terminal.isRaw, terminal.isHeard], [false, false])
  assert.deepEqual(terminal.resets, ['login: '.length])
})

test('queries to the terminal in the history are not repeated; new ones are', async (t) => {
  const ask = '\u001B[6n'
  const stage = await startStage(t)
  // The terminal that has the output answers, wherever the input comes from.
  for (const [index, isTyped] of [true, false].entries()) {
    const terminal = new FakeTerminal(isTyped)
    terminal.isShown = true
    stage.start('console web-1', terminal)
    const served = await stage.server.connection(index)
    served.deliver(attached('s1', 0, { replay_bytes: 2 * (ask.length + 2) }))
    served.say(`# ${ask}`)
    served.say(`# ${ask}# ${ask}`)
    await eventually(() => terminal.shown() === `# # # ${ask}`)
  }
})

test('the previous session continues as it was; another one begins with a message and its history', async (t) => {
  const ask = '\u001B[6n'
  const stage = await startStage(t)
  const { terminal, served, printed } = await attach(stage)
  served.say('a')
  // The guest wrote faster than the daemon could send, so the following output was never seen or answered.
  served.deliver(attached('s1', 100, { replay_bytes: ask.length, lost_bytes: 99 }))
  served.say(ask)
  await eventually(() => terminal.shown() === `a${ask}`)
  assert.doesNotMatch(printed(), /a new session/)
  served.ws.close(1001, 'daemon_stops')
  const next = await stage.server.connection(1)
  next.deliver(attached('s2', 0, { replay_bytes: 1 + ask.length }))
  next.say(`b${ask}${ask}`)
  await eventually(() => terminal.shown() === `a${ask}b${ask}`)
  assert.match(printed(), /vmhostctl: a new session\r\n$/)
  // Settings made by programs of the first session do not apply to the second.
  assert.deepEqual(terminal.resets, [`a${ask}`.length])
})

test('a history that breaks off is shown up to there', async (t) => {
  const stage = await startStage(t)
  const terminal = new FakeTerminal()
  stage.start('console web-1', terminal)
  const served = await stage.server.connection(0)
  served.deliver(attached('s1', 0, { replay_bytes: 100 }))
  served.say('half')
  served.ws.close(1001, 'daemon_stops')
  await eventually(() => terminal.shown() === 'half')
  const again = await stage.server.connection(1)
  again.deliver(attached('s1', 4, { replay_bytes: 5 }))
  again.say(' more')
  await eventually(() => terminal.shown() === 'half more')
})

test('a resize of the terminal is sent to the daemon', async (t) => {
  const { terminal, served } = await attach(await startStage(t))
  terminal.resizeTo(132, 50)
  await eventually(() => served.received().length === 1)
  assert.deepEqual(served.received(), [{ resize: { cols: 132, rows: 50 } }])
  terminal.type('~.')
})

test('a resize before there was a session is sent too', async (t) => {
  const stage = await startStage(t)
  const terminal = new FakeTerminal()
  stage.start('console web-1', terminal)
  const served = await stage.server.connection(0)
  terminal.resizeTo(132, 50)
  served.deliver(attached('s1', 0))
  await eventually(() => served.received().length === 1)
  assert.deepEqual(
    [served.query.get('cols'), served.received()],
    ['80', [{ resize: { cols: 132, rows: 50 } }]],
  )
})

test('~? lists the escapes, and ~~ is one tilde for the guest', async (t) => {
  const { terminal, served, result, printed } = await attach(await startStage(t))
  terminal.type('~?')
  assert.match(printed(), /~\. {2}leave; the VM goes on\r\n/)
  terminal.type('~~/x\r~.')
  await eventually(() => served.input() === '~/x\r')
  assert.equal((await result).status, 0)
})

test('a restart of the daemon is reported once, with the loss, and typing continues', async (t) => {
  const stage = await startStage(t)
  const { terminal, served, result, printed } = await attach(stage)
  served.say('before ')
  await eventually(() => terminal.shown() === 'before ')
  await stage.server.stop()
  await eventually(() => printed().includes('connection lost; waiting for the daemon…'))
  terminal.type('meanwhile ')
  const restarted = await startConsoleServer(t, pki, stage.server.port)
  const again = await restarted.connection(0)
  assert.equal(again.query.get('since'), '7')
  again.deliver(attached('s1', 10, { lost_bytes: 3 }))
  again.say('after')
  await eventually(() => terminal.shown() === 'before after')
  await eventually(() => again.input() === 'meanwhile ')
  assert.match(
    printed(),
    /waiting for the daemon…\r\n\r\nvmhostctl: back\r\n\r\nvmhostctl: 3 bytes of output are lost/,
  )
  assert.equal(terminal.isRaw, true)
  terminal.type('\r~.')
  assert.equal((await result).status, 0)
})

test('~. also leaves while the daemon is away, and while the terminal does not take output', async (t) => {
  const stage = await startStage(t)
  const away = await attach(stage)
  await stage.server.stop()
  await eventually(() => away.printed().includes('connection lost'))
  away.terminal.type('~.')
  assert.equal((await away.result).status, 0)
  const stalled = new FakeTerminal()
  stalled.stalled = new Promise(() => {})
  const { served, terminal, result } = await attach(await startStage(t), { terminal: stalled })
  served.say('output')
  await eventually(() => terminal.shown() === 'output')
  terminal.type('~.')
  assert.equal((await result).status, 0)
})

test('a VM that stops, moves or is deleted ends the console without a failure, and with a message', async (t) => {
  for (const [reason, says] of [
    ['vm_stopped', /web-1 has stopped, and its console session with it\r\n$/],
    ['vm_stopped: this was its last output', /web-1 has stopped.*: this was its last output\r\n$/],
    ['vm_deleted', /web-1 is gone\r\n$/],
    ['vm_moved: host-2', /web-1 is at another host now: host-2\r\n$/],
  ] as const) {
    const { served, result, terminal } = await attach(await startStage(t))
    served.ws.close(1000, reason)
    const { status, err } = await result
    assert.equal(status, 0)
    assert.match(err, says)
    assert.equal(terminal.isRaw, false)
  }
})

test('with --follow the console waits for the start, and for the next one', async (t) => {
  const stage = await startStage(t)
  const terminal = new FakeTerminal()
  const { result, printed } = stage.start('console web-1 --follow', terminal)
  const served = await stage.server.connection(0)
  served.deliver({ waiting: { for: 'start' } })
  await eventually(() => printed().includes('web-1 does not run on this host; waiting for its start'))
  served.deliver(attached('s1', 0))
  served.say('boot ')
  served.deliver({ waiting: { for: 'start' } })
  served.deliver(attached('s2', 0))
  served.say('again')
  await eventually(() => terminal.shown() === 'boot again')
  assert.equal(printed().split('vmhostctl: a new session').length, 2)
  terminal.type('~.')
  assert.equal((await result).status, 0)
})

test("the status of a shell over SSH is the program's own", async (t) => {
  for (const [reason, status] of [
    ['shell_ended: exit status 0', 0],
    ['shell_ended: exit status 42', 42],
    ['shell_ended: exit status 255', 255],
    // RFC 4254 has 32 bits for the status; a process has eight, and must not end with success here.
    ['shell_ended: exit status 300', 44],
    ['shell_ended: exit status 256', 1],
    ['shell_ended: exit status 4294967295', 255],
  ] as const) {
    const { served, result } = await attach(await startStage(t), { options: ' --ssh --user admin' })
    assert.equal(served.query.get('user'), 'admin')
    served.ws.close(1000, reason)
    const ended = await result
    assert.equal(ended.status, status)
    assert.doesNotMatch(ended.err, /vmhostctl: .*shell.*ended/)
  }
})

test('each other end has a message with what to do, and its status', async (t) => {
  const cases = [
    [1000, 'shell_ended: killed by TERM', 1, /web-1: the shell has ended: killed by TERM/],
    [1001, 'daemon_stops', 4, /web-1: the daemon stops; the VM goes on\n {2}connect again/],
    [1011, 'ssh_no_address', 1, /web-1 has no address to connect to\n {2}vmhostctl console web-1 needs none/],
    [
      1011,
      'ssh_refused: connect ECONNREFUSED',
      1,
      /nothing listens .*: connect ECONNREFUSED\n {2}does the guest/,
    ],
    [1011, 'ssh_key_refused', 1, /does not accept the daemon's key for this user\n {2}is --user right/],
    [1011, 'ssh_timed_out', 1, /web-1: the guest did not answer in time/],
    [1011, 'internal', 1, /web-1: a bug in vmhostd\n {2}the log/],
    [1009, '', 1, /the daemon closed the console of web-1 with status 1009\n/],
    [1008, 'something_new: more', 1, /with status 1008, something_new: more\n/],
  ] as const
  for (const [code, reason, status, says] of cases) {
    const { served, result, terminal } = await attach(await startStage(t), { options: ' --ssh' })
    served.ws.close(code, reason)
    const ended = await result
    assert.equal(ended.status, status, reason)
    assert.match(ended.err, says)
    assert.equal(terminal.isRaw, false)
  }
})

test('a shell whose connection breaks is lost, with status 4', async (t) => {
  const { served, result } = await attach(await startStage(t), { options: ' --ssh' })
  served.ws.terminate()
  const { status, err } = await result
  assert.equal(status, 4)
  assert.match(err, /the connection broke, and the shell in web-1 ended with it/)
})

test('a refusal leaves the terminal as it was and says what to do', async (t) => {
  const { server, start } = await startStage(t)
  const fingerprint = `SHA256:${'x'.repeat(40)}+/9`
  const changed = {
    status: 409,
    body: JSON.stringify({
      ...{ code: 'ssh_host_key_changed', status: 409, request_id: 'req-1', retryable: false },
      detail: `the guest of web-1 has another host key; to accept it, connect with accept_host_key=${fingerprint.replaceAll('+', '%2B')}`,
    }),
  }
  for (const [refused, says] of [
    [
      problem(409, 'vm_not_running'),
      /vmhostctl vm start web-1.*\n {2}vmhostctl console web-1 --follow waits/,
    ],
    [problem(429, 'console_viewers_full', true), /somebody must leave the console of web-1 first/],
    [changed, /vmhostctl console web-1 --ssh --accept-host-key SHA256:x{40}\+\/9\n/],
    [problem(409, 'vm_migrated'), /--profile FILE names the profile of its new host/],
    [problem(404, 'not_found'), /vmhostctl vm ls shows the VMs there are/],
  ] as const) {
    server.refusals.push(refused)
    const terminal = new FakeTerminal()
    terminal.lend = () => assert.fail('it was lent to the guest')
    const { status, err } = await start('console web-1', terminal).result
    assert.equal(status, 1)
    assert.match(err, says)
  }
})

test('an error while attached restores the terminal before the message', async (t) => {
  const stage = await startStage(t)
  const { terminal, result, served } = await attach(stage)
  stage.server.refusals.push(problem(403, 'forbidden'))
  served.ws.terminate()
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, /vmhostctl: refused: forbidden\n/)
  assert.equal(terminal.isRaw, false)
})

test('piped input is sent unchanged, without escapes, and its end is not the end of the output', async (t) => {
  const terminal = new FakeTerminal(false)
  const { served, result, printed } = await attach(await startStage(t), { terminal })
  terminal.type('~.\n~~')
  terminal.end()
  await eventually(() => served.input() === '~.\n~~')
  served.say('still here')
  await eventually(() => terminal.shown() === 'still here')
  assert.equal(printed(), '')
  assert.equal(served.query.get('cols'), null)
  served.ws.close(1000, 'vm_stopped')
  const { status, err } = await result
  assert.equal(status, 0)
  assert.equal(err, 'vmhostctl: web-1 has stopped, and its console session with it\n')
})

test('a pipe is not read while too much of its data waits', async (t) => {
  const stage = await startStage(t)
  const terminal = new FakeTerminal(false)
  const { server } = stage
  const { result } = stage.start('console web-1 --follow', terminal)
  const served = await server.connection(0)
  served.deliver({ waiting: { for: 'start' } })
  await eventually(() => terminal.isHeard)
  terminal.type('x'.repeat(limits.clientConsoleInputBytesMax))
  assert.equal(terminal.isPaused, false)
  terminal.type('y')
  assert.equal(terminal.isPaused, true)
  served.deliver(attached('s1', 0))
  await eventually(() => !terminal.isPaused)
  await eventually(() => served.input().endsWith('y'))
  served.ws.close(1000, 'vm_deleted')
  assert.equal((await result).status, 0)
})

test('escapes work also after more was typed than is taken: what has no room then is dropped', async (t) => {
  const { server, start } = await startStage(t)
  const [terminal, clock] = [new FakeTerminal(), new HeldClock()]
  const { result, printed } = start('console web-1 --follow', terminal, { sleep: clock.sleep })
  const served = await server.connection(0)
  served.deliver({ waiting: { for: 'start' } })
  await eventually(() => terminal.isHeard)
  terminal.type('x'.repeat(limits.clientConsoleInputBytesMax + 1))
  assert.equal(terminal.isPaused, true)
  await clock.wake(limits.ctlInputStuckMs)
  await eventually(() => !terminal.isPaused)
  terminal.type('dropped\r~?')
  assert.match(printed(), /~\. {2}leave; the VM goes on/)
  assert.equal(printed().match(/web-1 takes no input, and more is dropped until it does; ~\. /g)?.length, 1)
  served.deliver(attached('s1', 0))
  await eventually(() => served.input().length > limits.clientConsoleInputBytesMax)
  terminal.type('taken')
  await eventually(() => served.input().endsWith('xtaken'))
  terminal.type('\r~.')
  assert.equal((await result).status, 0)
})

test('a hung-up terminal ends the console', async (t) => {
  const { terminal, result } = await attach(await startStage(t))
  terminal.end()
  assert.equal((await result).status, 0)
})

test('a wrong command line is refused before any request', async () => {
  const fingerprint = `SHA256:${'x'.repeat(43)}`
  for (const [line, says] of [
    ['console', /missing required argument 'VM'/],
    ['console a b', /Expected 1 argument but got 2: a, b/],
    ['console a --ssh --follow', /a shell cannot --follow a VM/],
    ['console a --user root', /--user has no effect without --ssh/],
    [`console a --accept-host-key ${fingerprint}`, /--accept-host-key has no effect without --ssh/],
    ['console a --ssh --accept-host-key MD5:12', /--accept-host-key MD5:12 is not a fingerprint/],
  ] as const) {
    const { status, err } = await ctl(line.split(' '))
    assert.equal(status, 2, line)
    assert.match(err, says)
  }
})
