import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, fstatSync, openSync, readdirSync, writeSync } from 'node:fs'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { MasterOptions } from './console-master.ts'
import { until } from '../../../test/contract/until.ts'
import { limits } from '../../config/limits.ts'
import { inLogContext, logContext, silentLog } from '../../log/log.ts'
import { duplicate } from '../ffi/descriptor.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { library } from '../ffi/koffi.ts'
import { ConsoleHistory } from './console-history.ts'
import { ConsoleMaster, sharedBudget } from './console-master.ts'
import { hasSession, makeRaw, openMaster, openSlave, slavePath, setWindowSize } from './open-pty.ts'

function openConsole(t: TestContext, options: Partial<MasterOptions> = {}): ConsoleMaster {
  const terminal = ConsoleMaster.open({ history: ConsoleHistory.inMemory(), log: silentLog, ...options })
  t.after(() => terminal.close())
  return terminal
}

function writeOnce(path: string, text: string): void {
  const slave = openSlave(path)
  writeSync(slave, text)
  closeSync(slave)
}

const output = (terminal: ConsoleMaster): string => Buffer.from(terminal.output.since(0).bytes).toString()
const seen = (terminal: ConsoleMaster, text: string): Promise<string> =>
  until(
    () => output(terminal),
    (all) => all === text,
  )

/** More than one read returns. */
const READ_BYTES = 32 * 4096

/** Returns how many milliseconds it takes to read what a program writes at once. */
async function msToRead(terminal: ConsoleMaster): Promise<number> {
  const startedMs = performance.now()
  await runOn(terminal.path, `head -c ${READ_BYTES} /dev/zero`)
  await until(
    () => terminal.output.end,
    (end) => end === READ_BYTES,
  )
  return performance.now() - startedMs
}

/** Runs a program in its own session on a terminal, as systemd does for a VM. */
function runOn(path: string, command: string): Promise<unknown[]> {
  const slave = openSlave(path)
  const child = spawn('setsid', ['--ctty', '--wait', 'sh', '-c', command], { stdio: [slave, slave, slave] })
  closeSync(slave)
  return once(child, 'exit')
}

test('what is written on the terminal is kept unchanged', async (t) => {
  const terminal = openConsole(t)
  writeOnce(terminal.path, 'one\ntwo\r\n\tthree\u0003')
  await seen(terminal, 'one\ntwo\r\n\tthree\u0003')
})

test('later reports of a console carry no log context of the operation that opened it', async (t) => {
  const terminal = inLogContext({ operation_id: 'op-1', step: 'console.ensure-master' }, () => openConsole(t))
  const reported = new Promise<object>((resolve) => terminal.onOutput(() => resolve(logContext())))
  writeOnce(terminal.path, 'hello')
  assert.deepEqual(await reported, {})
})

test('input is not echoed while no program reads it', async (t) => {
  const terminal = openConsole(t)
  writeSync(terminal.fd, 'typed early\n')
  writeOnce(terminal.path, 'said')
  await seen(terminal, 'said')
})

test('reading continues from one program on the terminal to the next', async (t) => {
  const terminal = openConsole(t)
  await runOn(terminal.path, 'echo first')
  await runOn(terminal.path, 'echo second')
  await seen(terminal, 'first\nsecond\n')
})

test('a program that writes more than is kept is never delayed', async (t) => {
  const terminal = openConsole(t)
  const bytes = 4 * limits.consoleHistoryBytes
  const [status] = await runOn(terminal.path, `head -c ${bytes} /dev/zero; printf end`)
  assert.equal(status, 0)
  await until(
    () => terminal.output.end,
    (end) => end === bytes + 3,
  )
  const { bytes: kept } = terminal.output.since(0)
  assert.equal(kept.length, limits.consoleHistoryBytes)
  assert.equal(Buffer.from(kept.subarray(-3)).toString(), 'end')
})

test('a program sees the size of the window, and a change of it', async (t) => {
  const terminal = openConsole(t)
  await runOn(terminal.path, 'stty size')
  setWindowSize(terminal.fd, { cols: 132, rows: 50 })
  await runOn(terminal.path, 'stty size')
  await seen(terminal, '24 80\n50 132\n')
})

test('a terminal is in session only while a program runs on it', async (t) => {
  const terminal = openConsole(t)
  assert.equal(hasSession(terminal.fd), false)
  const ended = runOn(terminal.path, 'echo up; read line; echo down')
  await seen(terminal, 'up\n')
  assert.equal(hasSession(terminal.fd), true)
  writeSync(terminal.fd, '\n')
  await ended
  assert.equal(hasSession(terminal.fd), false)
})

test(
  'a console is still read after a hang-up',
  { skip: process.getuid?.() !== 0 && 'needs root' },
  async (t) => {
    const terminal = openConsole(t)
    writeOnce(terminal.path, 'before ')
    await seen(terminal, 'before ')
    const TIOCVHANGUP = 0x5437
    const slave = openSlave(terminal.path)
    const ioctl = library('libc.so.6').func('int ioctl(int fd, unsigned long request, ...)')
    assert.equal(ioctl(slave, TIOCVHANGUP, 'int', 0), 0)
    closeSync(slave)
    writeOnce(terminal.path, 'after')
    await seen(terminal, 'before after')
  },
)

test('a closed console leaves nothing open, and a stored master keeps the pty', async () => {
  const openFiles = (): number => readdirSync('/proc/self/fd').length
  const before = openFiles()
  const terminal = ConsoleMaster.open({ history: ConsoleHistory.inMemory(), log: silentLog })
  const stored = duplicate(terminal.fd)
  terminal.close()
  terminal.close()
  const adopted = ConsoleMaster.adopt(stored, { history: ConsoleHistory.inMemory(), log: silentLog })
  assert.equal(adopted.path, terminal.path)
  writeOnce(adopted.path, 'still here')
  await seen(adopted, 'still here')
  adopted.close()
  assert.equal(await until(openFiles, (count) => count === before), before)
})

test('a descriptor that is not a master cannot be adopted, and is closed', () => {
  const fd = openSync('/dev/null', 'r')
  assert.throws(
    () => ConsoleMaster.adopt(fd, { history: ConsoleHistory.inMemory(), log: silentLog }),
    (error) => hasErrno(error, 'ENOTTY', 'EINVAL'),
  )
  assert.throws(
    () => fstatSync(fd),
    (error) => hasErrno(error, 'EBADF'),
  )
})

test('a guest that writes without pause gets only its share of the daemon', async (t) => {
  const noisy = openConsole(t)
  const quiet = openConsole(t)
  const slave = openSlave(noisy.path)
  const guest = spawn('dd', ['if=/dev/zero', 'bs=64k', 'status=none'], { stdio: ['ignore', slave, 'ignore'] })
  t.after(() => guest.kill('SIGKILL'))
  closeSync(slave)
  const startedMs = performance.now()
  const burst = limits.consoleMovedBurstBytes
  for (let line = 0; noisy.output.end < 16 * burst; line++) {
    writeOnce(quiet.path, `line ${line}\n`)
    await until(
      () => output(quiet),
      (all) => all.endsWith(`line ${line}\n`),
    )
    // Read before the time is taken, so that the allowance is not too small.
    const moved = noisy.output.end
    const seconds = (performance.now() - startedMs) / 1000
    const allowed = burst + seconds * limits.consoleMovedBytesPerSecond + 32 * limits.consoleReadBytes
    assert.ok(moved <= allowed, `${moved} bytes in ${seconds} s`)
  }
})

test('work that is charged to a console delays its guest', async (t) => {
  const terminal = openConsole(t)
  terminal.spend(limits.consoleMovedBurstBytes + 0.2 * limits.consoleMovedBytesPerSecond)
  assert.ok((await msToRead(terminal)) >= 150)
})

test('the work of all consoles together is bounded as well', async (t) => {
  const shared = sharedBudget()
  const [one, other, apart] = [openConsole(t, { shared }), openConsole(t, { shared }), openConsole(t)]
  one.spend(limits.consoleMovedBurstBytes + 2 * limits.consolesMovedBytesPerSecond)
  const waited = msToRead(other)
  await msToRead(apart)
  assert.ok(other.output.end < READ_BYTES, 'the other waits, while one with a budget of its own does not')
  assert.ok((await waited) >= 1500)
})

test('listeners are called once for many reads', async (t) => {
  const terminal = openConsole(t)
  let reported = 0
  terminal.onOutput(() => (reported += 1))
  const [rounds, bytes] = [20, 8000]
  for (let round = 1; round <= rounds; round++) {
    // Two reads, of which the first is full.
    writeOnce(terminal.path, 'x'.repeat(bytes))
    await until(
      () => terminal.output.end,
      (end) => end === round * bytes,
    )
  }
  assert.ok(reported < 1.5 * rounds, `${reported} times`)
})

test('the last output of a guest is reported before its terminal goes, even if reading paused', (t) => {
  const terminal = openConsole(t)
  terminal.spend(10 * limits.consoleMovedBytesPerSecond)
  const heard: string[] = []
  terminal.onOutput(() => heard.push(output(terminal)))
  writeOnce(terminal.path, 'goodbye')
  terminal.takeLeave()
  terminal.takeLeave()
  assert.deepEqual(heard, ['goodbye'])
})

test('a closing terminal returns what no program has read, in order', (t) => {
  const terminal = openConsole(t)
  const typed = Array.from({ length: 20_000 }, (_, line) => `line ${line}\n`).join('')
  terminal.write(Buffer.from(typed))
  assert.ok(terminal.inputWaiting > 0, 'the terminal took all of it')
  assert.equal(Buffer.from(terminal.takeLeave()).toString(), typed)
})

test('calls on a closed terminal do nothing', async (t) => {
  const terminal = openConsole(t)
  const guest = openSlave(terminal.path)
  t.after(() => closeSync(guest))
  writeOnce(terminal.path, 'said')
  terminal.takeLeave()
  terminal.write(Buffer.from('typed'))
  terminal.resize({ cols: 1, rows: 1 })
  terminal.spend(1)
  await new Promise(setImmediate)
  assert.equal(output(terminal), 'said')
  assert.equal(terminal.inputWaiting, 0)
})

test('a master that systemd passes in blocking mode is read and written without blocking', async (t) => {
  const blocking = openMaster()
  const slave = openSlave(slavePath(blocking))
  makeRaw(slave)
  closeSync(slave)
  const F_SETFL = 4
  assert.equal(
    library('libc.so.6').func('int fcntl(int fd, int command, ...)')(blocking, F_SETFL, 'int', 0),
    0,
  )
  const terminal = ConsoleMaster.adopt(blocking, { history: ConsoleHistory.inMemory(), log: silentLog })
  t.after(() => terminal.close())
  terminal.write(Buffer.alloc(64 * 1024))
  assert.ok(terminal.inputWaiting > 0)
  writeOnce(terminal.path, 'still read')
  await seen(terminal, 'still read')
})
