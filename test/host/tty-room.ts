import { closeSync } from 'node:fs'
import { errno, library } from '../../src/host/ffi/koffi.ts'
import { openSlave } from '../../src/host/pty/open-pty.ts'

/** poll(2); struct pollfd is an int and two shorts. */
const POLLOUT = 0x4
const poll = library('libc.so.6').func('int poll(void *fds, unsigned long count, int timeout)')

/** Whether a terminal accepts another byte from the program that runs on it. */
export function hasRoom(path: string): boolean {
  const fd = openSlave(path)
  try {
    const asked = Buffer.alloc(8)
    asked.writeInt32LE(fd, 0)
    asked.writeInt16LE(POLLOUT, 4)
    if ((poll(asked, 1, 0) as number) < 0) throw new Error(`poll: errno ${errno()}`)
    return (asked.readInt16LE(6) & POLLOUT) !== 0
  } finally {
    closeSync(fd)
  }
}
