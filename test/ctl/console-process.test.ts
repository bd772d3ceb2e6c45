/** `vmhostctl console` as a process of its own, on a real terminal. */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { closeSync, writeSync } from 'node:fs'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { before, test } from 'node:test'
import { ReadStream } from 'node:tty'
import { openMaster, openSlave, setWindowSize, slavePath } from '../../src/host/pty/open-pty.ts'
import { SOFT_RESET } from '../../src/ctl/console/terminal.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { attached, startConsoleServer } from './support/console-server.ts'
import { writeProfile } from './support/ctl-stage.ts'
import type { ChildProcess } from 'node:child_process'
import type { TestContext } from 'node:test'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { ConsoleServer, Served } from './support/console-server.ts'

const MAIN = resolve(import.meta.dirname, '../../src/ctl-main.ts')

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** Returns the modes of a terminal, in the form in which stty(1) saves and restores them. */
const modesOf = (path: string): string => execFileSync('stty', ['--file', path, '-g'], { encoding: 'utf8' })

type OnTerminal = {
  readonly server: ConsoleServer
  readonly served: Served
  readonly child: ChildProcess
  /** Everything the terminal has shown. */
  readonly shown: () => string
  /** Shows a text, as another program on the terminal does. */
  readonly mark: (text: string) => void
  readonly type: (text: string) => void
  readonly hangUp: () => void
  readonly resizeTo: (cols: number, rows: number) => void
  /** Whether the modes are the original ones. */
  readonly isRestored: () => boolean
  readonly ended: Promise<readonly unknown[]>
}

type Start = {
  /** Node runs this before the program. */
  readonly boot?: string
  /** Without these, input and output are the terminal too, as the place of errors always is. */
  readonly stdin?: 'ignore'
  readonly stdout?: 'pipe'
}

/** Starts the program in a session with a terminal of its own, attached. */
async function startOnTerminal(
  t: TestContext,
  { boot = '', stdin, stdout }: Start = {},
): Promise<OnTerminal> {
  const server = await startConsoleServer(t, pki)
  const profile = writeProfile(t, { pki, url: server.url })
  const master = openMaster()
  const path = slavePath(master)
  setWindowSize(master, { cols: 100, rows: 30 })
  const slave = openSlave(path)
  const modes = modesOf(path)
  const screen = new ReadStream(master)
  const chunks: Buffer[] = []
  screen.on('data', (chunk: Buffer) => chunks.push(chunk))
  const argv = ['--import', `data:text/javascript,${boot}`, MAIN, 'console', 'web-1', '--profile', profile]
  // The program itself becomes the session leader, so that it gets the test's signals.
  const session = stdin === undefined ? ['--ctty'] : []
  const child = spawn('setsid', [...session, process.execPath, ...argv], {
    stdio: [stdin ?? slave, stdout ?? slave, slave],
  })
  const ended = once(child, 'exit')
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
    screen.destroy()
    closeSync(slave)
  })
  const served = await server.connection(0)
  served.deliver(attached('s1', 0))
  if (stdin === undefined) await eventually(() => modesOf(path) !== modes)
  return {
    ...{ server, served, child, ended },
    mark: (text) => void writeSync(slave, text),
    shown: () => Buffer.concat(chunks).toString(),
    type: (text) => void writeSync(master, text),
    hangUp: () => void screen.destroy(),
    resizeTo: (cols, rows) => setWindowSize(master, { cols, rows }),
    isRestored: () => modesOf(path) === modes,
  }
}

test('a real terminal is raw while attached, and is restored after leaving', async (t) => {
  const { type, served, ended, isRestored } = await startOnTerminal(t)
  assert.equal(served.query.get('cols'), '100')
  // The guest handles line editing, echo and the interrupt key.
  type('a\u0003\u001A\r~~\r')
  await eventually(() => served.input() === 'a\u0003\u001A\r~\r')
  type('~.')
  assert.deepEqual(await ended, [0, null])
  assert.ok(isRestored())
})

test('terminal settings that a guest left behind are undone before the last message', async (t) => {
  const { type, served, ended, shown } = await startOnTerminal(t)
  // An editor that was not left, and a truncated sequence.
  served.say('\u001B[?1049h\u001B[?1000h\u001B[7mediting\u001B]0;tit')
  await eventually(() => shown().endsWith('tit'))
  type('~.')
  await ended
  await eventually(() => shown().includes('left the console of web-1'))
  const [, last = ''] = shown().split('tit')
  assert.ok(last.startsWith(SOFT_RESET), JSON.stringify(last))
})

test('output of the guest is shown byte for byte', async (t) => {
  const { served, shown } = await startOnTerminal(t)
  served.say('one\ntwo\r\nthree\tfour')
  await eventually(() => shown().endsWith('one\ntwo\r\nthree\tfour'))
})

test('a resized window is reported', async (t) => {
  const { resizeTo, served } = await startOnTerminal(t)
  resizeTo(132, 43)
  await eventually(() => served.received().length > 0)
  assert.deepEqual(served.received(), [{ resize: { cols: 132, rows: 43 } }])
})

for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT', 'SIGQUIT'] as const) {
  test(`${signal} ends the console with the terminal restored`, async (t) => {
    const { child, ended, isRestored, shown } = await startOnTerminal(t)
    child.kill(signal)
    assert.deepEqual(await ended, [null, signal])
    assert.ok(isRestored())
    await eventually(() => shown().endsWith(SOFT_RESET))
  })
}

test('a signal resets a terminal that has the output, wherever the input comes from', async (t) => {
  const { served, child, ended, shown } = await startOnTerminal(t, { stdin: 'ignore' })
  served.say('\u001B[?1049hediting')
  await eventually(() => shown().endsWith('editing'))
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [null, 'SIGTERM'])
  await eventually(() => shown().endsWith(SOFT_RESET))
})

test('a signal resets a terminal that has the input, though another program shows the output', async (t) => {
  const { child, ended, isRestored, shown } = await startOnTerminal(t, { stdout: 'pipe' })
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [null, 'SIGTERM'])
  assert.ok(isRestored())
  await eventually(() => shown().endsWith(SOFT_RESET))
})

test('a log that is written in the background does not reset its terminal', async (t) => {
  const { served, child, ended, shown, mark } = await startOnTerminal(t, { stdin: 'ignore', stdout: 'pipe' })
  const chunks: Buffer[] = []
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk))
  served.say('booting')
  await eventually(() => Buffer.concat(chunks).toString() === 'booting')
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [null, 'SIGTERM'])
  mark('end')
  await eventually(() => shown().endsWith('end'))
  assert.equal(shown(), 'end')
})

test('a crash leaves the terminal restored', async (t) => {
  const boot = 'process.on("SIGUSR2",()=>{throw new Error("a%20bug")})'
  const { child, ended, isRestored, shown } = await startOnTerminal(t, { boot })
  child.kill('SIGUSR2')
  const [code] = await ended
  assert.equal(code, 1)
  await eventually(() => shown().includes('Error: a bug'))
  // The message must come after the reset, to be visible.
  const [, last = ''] = shown().split(SOFT_RESET)
  assert.match(last, /Error: a bug/)
  assert.ok(isRestored())
})

test('a terminal that is hung up ends the console without a failure', async (t) => {
  const { type, served, ended, hangUp } = await startOnTerminal(t)
  type('x')
  await eventually(() => served.input() === 'x')
  hangUp()
  // The program may notice either one first: the signal or the end of its input.
  const [code, signal] = await ended
  assert.ok(code === 0 || signal === 'SIGHUP', `status ${String(code)}, signal ${String(signal)}`)
})

test('the end of the VM ends the console, although its input is still open', async (t) => {
  const { served, ended, isRestored, shown } = await startOnTerminal(t)
  served.ws.close(1000, 'vm_stopped')
  assert.deepEqual(await ended, [0, null])
  assert.ok(isRestored())
  await eventually(() => shown().includes('web-1 has stopped'))
})

test('leaving while the daemon is away takes no longer', async (t) => {
  const { server, type, ended, isRestored, shown } = await startOnTerminal(t)
  await server.stop()
  await eventually(() => shown().includes('waiting for the daemon'))
  type('~.')
  assert.deepEqual(await ended, [0, null])
  assert.ok(isRestored())
})

/** Starts the program without a terminal: pipes both ways. */
async function startPiped(
  t: TestContext,
): Promise<{ readonly served: Served; readonly child: ChildProcess }> {
  const server = await startConsoleServer(t, pki)
  const profile = writeProfile(t, { pki, url: server.url })
  const child = spawn(process.execPath, [MAIN, 'console', 'web-1', '--profile', profile])
  t.after(() => child.kill('SIGKILL'))
  const served = await server.connection(0)
  served.deliver(attached('s1', 0))
  return { served, child }
}

test('a reader that closes the output early is not a failure', async (t) => {
  const { served, child } = await startPiped(t)
  child.stdout?.destroy()
  const ended = once(child, 'exit')
  served.say('more\n')
  assert.deepEqual(await ended, [0, null])
})

test('piped input goes to the guest, and output still comes after the end of the input', async (t) => {
  const { served, child } = await startPiped(t)
  const chunks: Buffer[] = []
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk))
  child.stdin?.end('uname\n')
  await eventually(() => served.input() === 'uname\n')
  const ended = once(child, 'close')
  served.say('Linux\n')
  served.ws.close(1000, 'vm_stopped')
  assert.deepEqual(await ended, [0, null])
  assert.equal(Buffer.concat(chunks).toString(), 'Linux\n')
})
