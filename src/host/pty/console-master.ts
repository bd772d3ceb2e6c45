import { closeSync } from 'node:fs'
import { ReadStream } from 'node:tty'
import { limits } from '../../config/limits.ts'
import { Ring } from '../../core/console/ring.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { Log } from '../../log/log.ts'
import { duplicate } from '../ffi/descriptor.ts'
import { makeRaw, openMaster, openSlave, setWindowSize, slavePath } from './open-pty.ts'

/** What terminals have when nobody says otherwise. */
const WINDOW = { cols: 80, rows: 24 }

/**
 * The daemon's end of one console: the master, read always, so that a guest that writes never waits for a reader.
 *
 * The slave is held open as well, without being anybody's controlling terminal for it. A master whose last slave closed
 * answers every read with EIO, and its poll with hang-up, until a slave is opened again; while one is open here there is
 * no such time, and reading goes on from one run of the VM to the next. It does not keep a VM from ending: hang-up
 * (SIGHUP) comes of closing the last master, and the end of a session leader does not touch other openings of a pty
 * slave (disassociate_ctty in drivers/tty/tty_jobctrl.c).
 */
export class ConsoleMaster {
  readonly fd: number
  readonly path: string
  readonly output = new Ring(limits.consoleHistoryBytes)
  readonly #log: Log
  readonly #slave: number
  #stream: ReadStream | undefined
  #closed = false

  private constructor(fd: number, log: Log) {
    this.fd = fd
    this.path = slavePath(fd)
    this.#log = log
    this.#slave = openSlave(this.path)
  }

  /** A new pty. Throws ErrnoError; nothing is left behind then. */
  static open(log: Log): ConsoleMaster {
    return ConsoleMaster.#make(openMaster(), log, (made) => {
      makeRaw(made.#slave)
      setWindowSize(made.fd, WINDOW)
    })
  }

  /** Goes on with the master of an earlier process. Throws ErrnoError, e.g. if it is none, and has closed it then. */
  static adopt(fd: number, log: Log): ConsoleMaster {
    return ConsoleMaster.#make(fd, log, () => {})
  }

  static #make(fd: number, log: Log, prepare: (made: ConsoleMaster) => void): ConsoleMaster {
    let made: ConsoleMaster | undefined
    try {
      made = new ConsoleMaster(fd, log)
      prepare(made)
      made.#drain()
      return made
    } catch (error) {
      if (made === undefined) closeSync(fd)
      else made.close()
      throw error
    }
  }

  /** Closes this process's ends; the pty lives on where the master is stored. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#stream?.destroy()
    closeSync(this.#slave)
    closeSync(this.fd)
  }

  #drain(): void {
    // The stream closes what it reads from, so it gets a descriptor of its own.
    const stream = new ReadStream(duplicate(this.fd))
    this.#stream = stream
    stream.on('data', (chunk: Buffer) => this.output.write(chunk))
    stream.on('error', (error) => {
      this.#log.error({ pts: this.path, reason: errorChain(error) }, 'a console cannot be read any more')
    })
  }
}
