import assert from 'node:assert/strict'
import { closeSync, openSync } from 'node:fs'
import { library } from '../src/host/ffi/koffi.ts'
import type { TestContext } from 'node:test'

/** linux/fcntl.h and asm-generic/fcntl.h. */
const F_SETLEASE = 1024
const F_RDLCK = 0

/** Holds a lease on a file until the end of the test, as a hostile monitor does: it is asked for it, and keeps it. */
export function holdLease(t: TestContext, path: string): void {
  const fcntl = library('libc.so.6').func('int fcntl(int fd, int command, ...)')
  // The kernel asks the holder with SIGIO, which ends a process without a handler.
  const keep = (): void => {}
  process.on('SIGIO', keep)
  t.after(() => process.off('SIGIO', keep))
  const holder = openSync(path, 'r')
  t.after(() => closeSync(holder))
  assert.equal(fcntl(holder, F_SETLEASE, 'int', F_RDLCK), 0)
}
