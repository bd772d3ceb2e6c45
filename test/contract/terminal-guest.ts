import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs'
import { hasErrno } from '../../src/host/ffi/errno-error.ts'
import { library } from '../../src/host/ffi/koffi.ts'
import { until } from './until.ts'
import type { WindowSize } from '../../src/core/console/console-viewer.ts'

const TIOCGWINSZ = 0x5413
const PIECE_BYTES = 16 * 1024

const ioctl = library('libc.so.6').func('int ioctl(int fd, unsigned long request, ...)')

/** A program on the slave of a pty, in this process: it never waits for the holder of the master. */
export class TerminalGuest {
  readonly #fd: number
  readonly #typed: Buffer[] = []

  constructor(path: string) {
    this.#fd = openSync(path, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK)
  }

  /** Resolves when the terminal has taken all of it. */
  async say(text: string): Promise<void> {
    let said = 0
    await until(
      () => (said += this.sayAsMuchAsFits(text.slice(said))),
      () => said === text.length,
    )
  }

  /** Returns how many bytes the terminal took. */
  sayAsMuchAsFits(text: string): number {
    const bytes = Buffer.from(text, 'latin1')
    let at = 0
    isDone(() => {
      while (at < bytes.length) at += writeSync(this.#fd, bytes, at, Math.min(PIECE_BYTES, bytes.length - at))
    })
    return at
  }

  /** Returns all input so far; reads only when it is called. */
  typed(): string {
    const read = (): void => {
      const piece = Buffer.alloc(PIECE_BYTES)
      for (let length; (length = readSync(this.#fd, piece)) > 0;)
        this.#typed.push(Buffer.from(piece.subarray(0, length)))
    }
    isDone(read)
    return Buffer.concat(this.#typed).toString()
  }

  /** ioctl_tty(2) */
  window(): WindowSize {
    const size = new Uint16Array(4)
    if (ioctl(this.#fd, TIOCGWINSZ, 'void *', size) !== 0) throw new Error('TIOCGWINSZ failed')
    const [rows = 0, cols = 0] = size
    return { cols, rows }
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** Returns false if the terminal would block. */
function isDone(act: () => void): boolean {
  try {
    act()
    return true
  } catch (error) {
    if (hasErrno(error, 'EAGAIN')) return false
    throw error
  }
}
