/** `vmhostctl console` against the daemon's own API over fakes. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { ConsoleConnection } from '../../src/client/console/console-connection.ts'
import { wsLinks } from '../../src/client/ws-links.ts'
import { limits } from '../../src/config/limits.ts'
import { closes } from '../../src/core/console/close.ts'
import { endingOf } from '../../src/ctl/console/ending.ts'
import { CtlError } from '../../src/ctl/ctl-error.ts'
import { createVm, startConsole, stopConsole, WEB } from '../daemon/support/console-viewer.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { readProfile } from '../../src/ctl/profile.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import { FakeTerminal } from './support/fake-terminal.ts'
import { setImmediate, setTimeout as delay } from 'node:timers/promises'
import type { TestContext } from 'node:test'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { FakeGuest } from '../fakes/fake-guest-shells.ts'
import type { FakeSession } from '../fakes/fake-session.ts'
import type { CtlStage, Running } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const ADDRESS = '192.0.2.10'

async function stageWithVm(t: TestContext): Promise<CtlStage> {
  const stage = await startCtlStage(t, pki)
  await createVm(stage.host)
  stage.host.store.vms.recordProgress(WEB, { observed: { state: 'running', sinceMs: 1 }, nowMs: 2 })
  return stage
}

type OnTerminal = Running & { readonly terminal: FakeTerminal }

async function attach(
  t: TestContext,
  stage: CtlStage,
  { options = '', terminal = new FakeTerminal() } = {},
): Promise<OnTerminal> {
  t.after(() => terminal.hangUp())
  const running = stage.start(`console ${WEB}${options}`, { shell: { openTerminal: () => terminal } })
  await eventually(() => terminal.isHeard || running.printed().includes('vmhostctl: '))
  return { ...running, terminal }
}

const say = (session: FakeSession, text: string): void => session.say(Buffer.from(text))

test('past and new output of the guest is shown, and input and window size reach it', async (t) => {
  const stage = await stageWithVm(t)
  const session = await startConsole(stage.host)
  say(session, 'booting\r\n')
  const { terminal, result } = await attach(t, stage)
  assert.deepEqual(session.terminal.window, { cols: 80, rows: 24 })
  say(session, 'login: ')
  await eventually(() => terminal.shown() === 'booting\r\nlogin: ')
  terminal.type('root\r')
  await eventually(() => session.terminal.typed === 'root\r')
  terminal.resizeTo(132, 43)
  await eventually(() => session.terminal.window.cols === 132)
  terminal.type('~.')
  assert.equal((await result).status, 0)
})

test('keys that come faster than messages are allowed are sent together', async (t) => {
  const stage = await stageWithVm(t)
  const session = await startConsole(stage.host)
  const { terminal } = await attach(t, stage)
  // The daemon's clock does not move: only the burst is allowed.
  const keys = 3 * limits.consoleMessagesBurst
  for (let index = 0; index < keys; index += 1) {
    terminal.type(String(index % 10))
    await setImmediate()
  }
  await eventually(() => session.terminal.typed.length === keys)
  assert.equal(session.terminal.typed, '0123456789'.repeat(keys / 10))
})

test('no input or output is lost or doubled over a restart of the listener', async (t) => {
  const stage = await stageWithVm(t)
  const session = await startConsole(stage.host)
  const { terminal, printed, result } = await attach(t, stage)
  let said = ''
  const talk = (text: string): void => {
    said += text
    say(session, text)
  }
  talk('before ')
  terminal.type('before ')
  await eventually(() => session.terminal.typed === 'before ')
  for (const round of [1, 2, 3]) {
    await stage.host.close(1000)
    talk(`while ${round} `)
    await eventually(() => printed().split('connection lost').length === round + 1)
    terminal.type(`typed ${round} `)
    await stage.host.reopen()
    talk(`after ${round} `)
    await eventually(() => session.terminal.typed.endsWith(`typed ${round} `))
    await eventually(() => terminal.shown() === said)
  }
  assert.equal(session.terminal.typed, 'before typed 1 typed 2 typed 3 ')
  assert.equal(printed().split('vmhostctl: connected again').length, 4)
  terminal.type('\r~.')
  assert.equal((await result).status, 0)
})

test('the console waits for a daemon that is starting up', async (t) => {
  const stage = await stageWithVm(t)
  const session = await startConsole(stage.host)
  const { terminal, printed } = await attach(t, stage)
  stage.host.storeIsOpen = false
  await stage.host.close(1000)
  await stage.host.reopen()
  await eventually(() => printed().includes('connection lost'))
  terminal.type('early')
  stage.host.storeIsOpen = true
  await eventually(() => session.terminal.typed === 'early')
})

test('the stop of the VM ends the console; a VM that does not run is refused, or waited for', async (t) => {
  const stage = await stageWithVm(t)
  const refused = await stage.run(`console ${WEB}`)
  assert.equal(refused.status, 1)
  assert.match(
    refused.err,
    /vmhostctl console web-1 --follow waits for its next start\n {2}code vm_not_running/,
  )
  assert.doesNotMatch(refused.err, /follow=true/)
  const { terminal, printed, result } = await attach(t, stage, { options: ' --follow' })
  await eventually(() => printed().includes('waiting for its start'))
  const session = await startConsole(stage.host)
  say(session, 'first ')
  await eventually(() => terminal.shown() === 'first ')
  const { result: ended } = await attach(t, stage)
  await stopConsole(stage.host)
  const { status, err } = await ended
  assert.equal(status, 0)
  assert.match(err, /web-1 has stopped/)
  say(await startConsole(stage.host), 'second')
  await eventually(() => terminal.shown() === 'first second')
  terminal.type('~.')
  assert.equal((await result).status, 0)
})

test('a VM that stopped while the daemon was away has ended the console', async (t) => {
  const stage = await stageWithVm(t)
  await startConsole(stage.host)
  const { result, printed } = await attach(t, stage)
  await stage.host.close(1000)
  await eventually(() => printed().includes('connection lost'))
  await stopConsole(stage.host)
  await stage.host.reopen()
  const { status, err } = await result
  assert.equal(status, 0)
  assert.match(err, /web-1 has stopped/)
})

test('one viewer too many is reported', async (t) => {
  const stage = await stageWithVm(t)
  await startConsole(stage.host)
  for (let count = 0; count < limits.consoleViewersMax; count += 1) await attach(t, stage)
  const { status, err } = await stage.run(`console ${WEB}`)
  assert.equal(status, 1)
  assert.match(err, /another viewer must leave the console of web-1 first\n {2}code console_viewers_full/)
})

test('a slow terminal is informed how much output it missed', async (t) => {
  const stage = await stageWithVm(t)
  const session = await startConsole(stage.host)
  const terminal = new FakeTerminal()
  const goOn = Promise.withResolvers<void>()
  terminal.stalled = goOn.promise
  const { printed } = await attach(t, stage, { terminal })
  const piece = Buffer.alloc(64 * 1024, 'x')
  let said = 0
  const fell = (): boolean => stage.host.logLines.some((line) => line.includes('viewer_behind'))
  while (!fell()) {
    session.say(piece)
    said += piece.length
    await delay(1)
  }
  goOn.resolve()
  say(session, 'the end')
  await eventually(() => terminal.shown().endsWith('the end'))
  assert.equal(printed().includes('connection lost'), printed().includes('back'))
  const lost = [...printed().matchAll(/(\d+) bytes of output are lost/g)].map(([, count]) => Number(count))
  assert.equal(terminal.shown().length + lost.reduce((sum, count) => sum + count, 0), said + 'the end'.length)
})

test("the client's cursor equals the one that the daemon reports", async (t) => {
  const stage = await stageWithVm(t)
  const session = await startConsole(stage.host)
  say(session, 'x'.repeat(limits.consoleHistoryBytes + 1000))
  const sleep = (ms: number, signal: AbortSignal): Promise<void> => delay(ms, undefined, { signal })
  const options = { sleep, monotonicMs: () => performance.now() }
  const request = { vm: WEB, mode: 'tty', follow: false } as const
  const console = new ConsoleConnection(wsLinks(readProfile(stage.profile)), request, options)
  let output = 0
  for await (const event of console.events()) {
    if (event.kind === 'attached') assert.equal(event.place?.cursor, 1000)
    if (event.kind === 'output') output += event.bytes.length
    if (event.kind === 'output' && output === limits.consoleHistoryBytes) console.askPosition()
    if (event.kind !== 'position') continue
    assert.equal(event.cursor, console.cursor)
    assert.equal(event.cursor, limits.consoleHistoryBytes + 1000)
    assert.equal(event.session, session.id)
    console.close()
  }
})

async function shellOf(t: TestContext, options = ''): Promise<OnTerminal & { readonly guest: FakeGuest }> {
  const stage = await stageWithVm(t)
  const guest = stage.host.guests.guest(ADDRESS)
  return { ...(await attach(t, stage, { options: ` --ssh${options}` })), guest }
}

test('a shell over SSH has its terminal, and its status is the exit status', async (t) => {
  const { guest, terminal, result } = await shellOf(t)
  await eventually(() => guest.shells.length === 1)
  const [shell] = guest.shells
  assert.deepEqual(shell?.sizes, [{ cols: 80, rows: 24 }])
  terminal.type('exit 7\r')
  await eventually(() => shell?.input.toString() === 'exit 7\r')
  shell?.say('bye\r\n')
  shell?.end({ kind: 'exited', status: 7 })
  assert.equal((await result).status, 7)
  assert.equal(terminal.shown(), 'bye\r\n')
})

test('a shell that was killed by a signal, or whose connection broke, gives status 1 with the reason', async (t) => {
  for (const [end, says] of [
    [{ kind: 'killed', signal: 'KILL' }, /web-1: the shell has ended: .*KILL/],
    [{ kind: 'lost', because: 'no answer' }, /web-1: the SSH connection broke: .*no answer/],
  ] as const) {
    const { guest, result } = await shellOf(t)
    await eventually(() => guest.shells.length === 1)
    guest.shells[0]?.end(end)
    const { status, err } = await result
    assert.equal(status, 1)
    assert.match(err, says)
  }
})

test('a failed login is reported, and a changed host key comes with the command that accepts it', async (t) => {
  const stranger = await (await shellOf(t, ' --user nobody')).result
  assert.equal(stranger.status, 1)
  assert.match(stranger.err, /does not accept the daemon's key for this user/)
  const stage = await stageWithVm(t)
  const guest = stage.host.guests.guest(ADDRESS)
  const first = await attach(t, stage, { options: ' --ssh' })
  await eventually(() => guest.shells.length === 1)
  guest.shells[0]?.end({ kind: 'exited', status: 0 })
  await first.result
  guest.hostKey = `SHA256:${'+/9'.padStart(43, 'A')}`
  const { status, err } = await stage.run(`console ${WEB} --ssh`)
  assert.equal(status, 1)
  const command = /vmhostctl (console web-1 --ssh --accept-host-key SHA256:\S{43})\n/.exec(err)?.[1]
  assert.ok(command !== undefined, err)
  const accepted = await attach(t, stage, { options: command.slice(`console ${WEB}`.length).padStart(1) })
  await eventually(() => guest.shells.length === 2)
  guest.shells[1]?.end({ kind: 'exited', status: 0 })
  assert.equal((await accepted.result).status, 0)
})

test('every close code of the daemon has a message of its own', () => {
  for (const [code, { status }] of Object.entries(closes)) {
    const words = (): string => {
      try {
        return endingOf({ status, code, words: '' }, WEB).words
      } catch (error) {
        assert.ok(error instanceof CtlError)
        return error.message
      }
    }
    assert.match(words(), /web-1|vmhostd/, code)
    assert.doesNotMatch(words(), /with status/, `${code} is shown without its title`)
  }
})
