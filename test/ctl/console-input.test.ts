/** `vmhostctl console` at a terminal in memory, against a daemon that the test plays: input and escapes. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { HeldClock } from '../fakes/held-clock.ts'
import { attached } from './support/console-server.ts'
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

test('~? lists the escapes, and ~~ is one tilde for the guest', async (t) => {
  const { terminal, served, result, printed } = await attach(await startStage(t))
  terminal.type('~?')
  // Lines without blank ones between.
  assert.match(
    printed(),
    /:\r\n {2}~\. {2}leave; the VM keeps running\r\n {2}~\? {2}this text\r\n {2}~~ {2}one /,
  )
  terminal.type('~~/x\r~.')
  await eventually(() => served.input() === '~/x\r')
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
  assert.match(printed(), /~\. {2}leave; the VM keeps running/)
  assert.equal(printed().match(/web-1 takes no input, and more is dropped until it does; ~\. /g)?.length, 1)
  served.deliver(attached('s1', 0))
  await eventually(() => served.input().length > limits.clientConsoleInputBytesMax)
  terminal.type('taken')
  await eventually(() => served.input().endsWith('xtaken'))
  terminal.type('\r~.')
  assert.equal((await result).status, 0)
})
