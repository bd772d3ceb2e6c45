/** `vmhostctl console` at a terminal in memory, against a daemon that the test plays: output and sessions. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { attached, startConsoleServer } from './support/console-server.ts'
import { attach, startConsoleStage } from './support/console-stage.ts'
import { FakeTerminal } from './support/fake-terminal.ts'
import type { TestContext } from 'node:test'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { Stage } from './support/console-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const startStage = (t: TestContext): Promise<Stage> => startConsoleStage(t, pki)

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
    /waiting for the daemon…\r\n\r\nvmhostctl: connected again\r\n\r\nvmhostctl: 3 bytes of output are lost/,
  )
  assert.equal(terminal.isRaw, true)
  terminal.type('\r~.')
  assert.equal((await result).status, 0)
})

test('a guest that sleeps is said to, after its history, and so is its wake', async (t) => {
  const stage = await startStage(t)
  const terminal = new FakeTerminal()
  const { result, printed } = stage.start('console web-1', terminal)
  const served = await stage.server.connection(0)
  served.deliver(attached('s1', 0, { replay_bytes: 7 }))
  served.say('login: ')
  served.deliver({ guest: { state: 'sleeping' } })
  await eventually(() => printed().includes('to continue: vmhostctl vm start web-1'))
  assert.equal(terminal.shown(), 'login: ')
  assert.match(printed(), /web-1 sleeps, and what you type waits/)
  served.deliver({ guest: { state: 'running' } })
  await eventually(() => printed().includes('web-1 runs again'))
  served.deliver({ guest: { state: 'paused' } })
  await eventually(() =>
    printed().includes('web-1 is paused, and what you type waits; to continue: vmhostctl vm resume web-1'),
  )
  terminal.type('~.')
  assert.equal((await result).status, 0)
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
