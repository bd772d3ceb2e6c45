import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, fstatSync, openSync, readdirSync, writeSync } from 'node:fs'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { limits } from '../../config/limits.ts'
import { silentLog } from '../../log/log.ts'
import { duplicate } from '../ffi/descriptor.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { library } from '../ffi/koffi.ts'
import { ConsoleMaster } from './console-master.ts'
import { hasSession, openSlave, setWindowSize } from './open-pty.ts'

function openConsole(t: TestContext, log = silentLog): ConsoleMaster {
  const terminal = ConsoleMaster.open(log)
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
    5000,
  )

/** Runs a program in a session of its own on a terminal, as systemd does for a VM. */
function runOn(path: string, command: string): Promise<unknown[]> {
  const slave = openSlave(path)
  const child = spawn('setsid', ['--ctty', '--wait', 'sh', '-c', command], { stdio: [slave, slave, slave] })
  closeSync(slave)
  return once(child, 'exit')
}

test('what is written on the terminal is kept as it is', async (t) => {
  const terminal = openConsole(t)
  writeOnce(terminal.path, 'one\ntwo\r\n\tthree\u0003')
  await seen(terminal, 'one\ntwo\r\n\tthree\u0003')
})

test('input is not echoed while no program reads it', async (t) => {
  const terminal = openConsole(t)
  writeSync(terminal.fd, 'typed early\n')
  writeOnce(terminal.path, 'said')
  await seen(terminal, 'said')
})

test('reading goes on from one program on the terminal to the next', async (t) => {
  const terminal = openConsole(t)
  await runOn(terminal.path, 'echo first')
  await runOn(terminal.path, 'echo second')
  await seen(terminal, 'first\nsecond\n')
})

test('a program that says more than is kept is never held up', async (t) => {
  const terminal = openConsole(t)
  const bytes = 4 * limits.consoleHistoryBytes
  const [status] = await runOn(terminal.path, `head -c ${bytes} /dev/zero; printf end`)
  assert.equal(status, 0)
  await until(
    () => terminal.output.end,
    (end) => end === bytes + 3,
    5000,
  )
  const { bytes: kept } = terminal.output.since(0)
  assert.equal(kept.length, limits.consoleHistoryBytes)
  assert.equal(Buffer.from(kept.subarray(-3)).toString(), 'end')
})

test('a program sees the size of the window, and of a changed one', async (t) => {
  const terminal = openConsole(t)
  await runOn(terminal.path, 'stty size')
  setWindowSize(terminal.fd, { cols: 132, rows: 50 })
  await runOn(terminal.path, 'stty size')
  await seen(terminal, '24 80\n50 132\n')
})

test('a terminal is in session while a program runs on it, and only then', async (t) => {
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
  'a console that somebody hung up is read on',
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

test('a closed console leaves nothing open, and the pty to whoever holds its master', async () => {
  const openFiles = (): number => readdirSync('/proc/self/fd').length
  const before = openFiles()
  const terminal = ConsoleMaster.open(silentLog)
  const stored = duplicate(terminal.fd)
  terminal.close()
  terminal.close()
  const adopted = ConsoleMaster.adopt(stored, silentLog)
  assert.equal(adopted.path, terminal.path)
  writeOnce(adopted.path, 'still here')
  await seen(adopted, 'still here')
  adopted.close()
  assert.equal(await until(openFiles, (count) => count === before, 5000), before)
})

test('a descriptor that is no master cannot be adopted, and is closed', () => {
  const fd = openSync('/dev/null', 'r')
  assert.throws(
    () => ConsoleMaster.adopt(fd, silentLog),
    (error) => hasErrno(error, 'ENOTTY', 'EINVAL'),
  )
  assert.throws(
    () => fstatSync(fd),
    (error) => hasErrno(error, 'EBADF'),
  )
})
