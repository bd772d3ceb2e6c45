import assert from 'node:assert/strict'
import {
  closeSync,
  constants as fileConstants,
  mkdtempSync,
  openSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { errno, library } from '../ffi/koffi.ts'
import { openOfVm } from './open-of-vm.ts'

/** linux/fcntl.h and asm-generic/fcntl.h. */
const F_SETLEASE = 1024
const F_RDLCK = 0
const F_WRLCK = 1

const fcntl = library('libc.so.6').func('int fcntl(int fd, int command, ...)')

test('while a file of a VM is open, nothing can take a lease that another open to read waits for', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-open-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'disk.raw')
  writeFileSync(path, 'disk')
  const held = await openOfVm(path)
  for (const flags of ['r', 'r+']) {
    const other = openSync(path, flags)
    assert.equal(fcntl(other, F_SETLEASE, 'int', F_WRLCK), -1)
    assert.equal(errno(), constants.errno.EAGAIN)
    closeSync(other)
  }
  await held.close()
})

test('while a file of a VM is open to write, nothing can take any lease, so a change of its size never waits', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-open-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'memory')
  writeFileSync(path, 'memory')
  const held = await openOfVm(path, fileConstants.O_WRONLY)
  const other = openSync(path, 'r')
  for (const lease of [F_RDLCK, F_WRLCK]) {
    assert.equal(fcntl(other, F_SETLEASE, 'int', lease), -1)
    assert.equal(errno(), constants.errno.EAGAIN)
  }
  closeSync(other)
  await held.close()
})

test('a file of a VM is not opened through a link', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-open-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const link = join(directory, 'disk.raw')
  symlinkSync('/dev/null', link)
  await assert.rejects(openOfVm(link), { code: 'ELOOP' })
})
