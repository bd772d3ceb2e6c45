import { randomBytes } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, rmSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { Ring, ringInMemory } from '../../core/console/ring.ts'
import { DEFAULT_WINDOW } from '../../core/console/console-viewer.ts'
import { allocate, mapFile } from '../ffi/map-file.ts'
import { QuietPages } from './quiet-pages.ts'
import type { RingMemory } from '../../core/console/ring.ts'
import type { WindowSize } from '../../core/console/console-viewer.ts'
import { assert } from '../../lib/assert.ts'
import type { MovedConsole } from '../../ports/consoles.ts'
import type { FileMapping } from '../ffi/map-file.ts'
import type { Pages } from './quiet-pages.ts'

/**
 * Keeps the history of a console in a file: a header, then the memory of the ring. Numbers are in the host's byte
 * order, because the file is mapped into memory.
 *
 *      0  8 bytes   the magic, written last
 *      8  32 bits   version of this layout
 *     12  32 bits   bytes of a guard of the ring
 *     16  64 bits   end of the output
 *     24  16 bytes  id of the session
 *     40  16 bits   columns of the terminal's window, 16 bits rows; zero until a viewer sets them
 *     44  32 bits   1 when the session is over
 *     48  64 bits   offset of the first output in this file; the output before it was on another host and is not kept
 *     64            the ring
 */
const MAGIC = 'vmhostcs'
const VERSION = 1
const AT = { version: 8, guard: 12, end: 16, session: 24, window: 40, over: 44, first: 48, ring: 64 }
const SESSION_BYTES = 16

const GUARD = limits.consoleReadBytes
const RING_BYTES = limits.consoleHistoryBytes + 2 * GUARD
const FILE_BYTES = AT.ring + RING_BYTES

/** The mappings of all histories. */
const quietPages = new QuietPages()

const SESSION_ID = /^[0-9a-f]{16}$/

const newSession = (): Omit<MovedConsole, 'window'> & { readonly window?: WindowSize } => ({
  session: randomBytes(SESSION_BYTES / 2).toString('hex'),
  end: 0,
  output: new Uint8Array(),
})

/**
 * Holds a console's output since its session began, and the session's state without its terminal. Both are in a file,
 * which outlives the daemon and contains everything that was read from the pty.
 */
export class ConsoleHistory {
  /** The id of the session: 16 lower-case hexadecimal digits. */
  readonly session: string
  readonly ring: Ring
  readonly #memory: HistoryMemory | undefined
  #window: WindowSize
  #isOver: boolean

  private constructor(session: string, ring: Ring, memory?: HistoryMemory) {
    this.session = session
    this.ring = ring
    this.#memory = memory
    this.#window = memory?.window ?? DEFAULT_WINDOW
    this.#isOver = memory?.isOver ?? false
  }

  /** The size of the terminal's window, for the next terminal of the session. */
  get window(): WindowSize {
    return this.#window
  }

  set window(size: WindowSize) {
    this.#window = size
    if (this.#memory !== undefined) this.#memory.window = size
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Ends the session. Its output stays. */
  end(): void {
    this.#isOver = true
    this.#memory?.markOver()
  }

  /**
   * Begins a session in a new file, which replaces any existing one, or continues one of another host. The file's full
   * size is allocated at once: a write to a mapping without room in the file system would end the process (SIGBUS).
   * Throws an error with an errno.
   */
  static create(path: string, moved?: MovedConsole): ConsoleHistory {
    rmSync(path, { force: true })
    const { O_RDWR, O_CREAT, O_EXCL } = constants
    const fd = openSync(path, O_RDWR | O_CREAT | O_EXCL, 0o600)
    try {
      allocate(fd, FILE_BYTES)
      const memory = new HistoryMemory(mapFile(fd, FILE_BYTES))
      const { session, end, window, output } = moved ?? newSession()
      assert(SESSION_ID.test(session), 'a session id has 16 hexadecimal digits')
      const kept = output.subarray(Math.max(0, output.length - end))
      const ring = Ring.begin(memory, GUARD, end - kept.length)
      ring.write(kept)
      if (window !== undefined) memory.window = window
      memory.label(session)
      return new ConsoleHistory(session, ring, memory)
    } catch (error) {
      rmSync(path, { force: true })
      throw error
    } finally {
      closeSync(fd)
    }
  }

  /** Continues the session of an earlier process. Throws an error with the reason if that is impossible. */
  static open(path: string): ConsoleHistory {
    const fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW)
    try {
      const found = fstatSync(fd)
      // If the mapping were longer than the file, the first access beyond it would end the process.
      if (!found.isFile() || found.size !== FILE_BYTES)
        throw new Error(`the history is ${found.size} bytes long, not ${FILE_BYTES}`)
      const memory = new HistoryMemory(mapFile(fd, FILE_BYTES))
      try {
        return new ConsoleHistory(memory.check(), Ring.resume(memory, GUARD), memory)
      } catch (error) {
        memory.release()
        throw error
      }
    } finally {
      closeSync(fd)
    }
  }

  /** Begins a session that ends with the process, for a running VM when there is no room for a file. */
  static inMemory(): ConsoleHistory {
    return new ConsoleHistory(newSession().session, ringInMemory(limits.consoleHistoryBytes, GUARD))
  }

  /**
   * Releases the file. Call it when nothing reads into the history any longer. The ring keeps its content in memory.
   */
  release(): void {
    this.#memory?.release()
  }
}

class HistoryMemory implements RingMemory {
  readonly length = RING_BYTES
  #mapping: FileMapping | undefined
  /** The content of the ring when the file was released. */
  #released = new Uint8Array()
  readonly #header: Buffer
  readonly #endCell: BigInt64Array
  #end: number
  #first: number
  #isUsed = true
  #isLoaded = true
  readonly #pages: Pages

  constructor(mapping: FileMapping) {
    this.#mapping = mapping
    this.#pages = {
      takeUsed: () => {
        const wasUsed = this.#isUsed
        this.#isUsed = false
        return wasUsed
      },
      unload: () => {
        this.#isLoaded = false
        mapping.unload()
      },
    }
    quietPages.watch(this.#pages)
    const header = mapping.view(0, AT.ring)
    this.#header = Buffer.from(header)
    this.#endCell = new BigInt64Array(header, AT.end, 1)
    this.#end = Number(Atomics.load(this.#endCell, 0))
    // Zero in a file of an earlier daemon.
    this.#first = Number(this.#header.readBigUInt64LE(AT.first))
  }

  piece(at: number, length: number): Uint8Array {
    if (this.#mapping === undefined) return this.#released.subarray(at, at + length)
    this.#use()
    return new Uint8Array(this.#mapping.view(AT.ring + at, length))
  }

  get end(): number {
    return this.#end
  }

  set end(end: number) {
    this.#end = end
    if (this.#mapping !== undefined) Atomics.store(this.#endCell, 0, BigInt(end))
  }

  get first(): number {
    return this.#first
  }

  set first(first: number) {
    this.#first = first
    if (this.#mapping !== undefined) this.#header.writeBigUInt64LE(BigInt(first), AT.first)
  }

  label(session: string): void {
    this.#header.writeUInt32LE(VERSION, AT.version)
    this.#header.writeUInt32LE(GUARD, AT.guard)
    this.#header.write(session, AT.session, 'latin1')
    this.#header.write(MAGIC, 'latin1')
  }

  /** The window size; undefined until it is set. */
  get window(): WindowSize | undefined {
    const cols = this.#header.readUInt16LE(AT.window)
    const rows = this.#header.readUInt16LE(AT.window + 2)
    return cols === 0 || rows === 0 ? undefined : { cols, rows }
  }

  set window({ cols, rows }: WindowSize) {
    if (this.#mapping === undefined) return
    this.#header.writeUInt16LE(cols, AT.window)
    this.#header.writeUInt16LE(rows, AT.window + 2)
  }

  get isOver(): boolean {
    return this.#header.readUInt32LE(AT.over) !== 0
  }

  markOver(): void {
    if (this.#mapping !== undefined) this.#header.writeUInt32LE(1, AT.over)
  }

  /** Returns the session's id. Throws an error that says what is wrong with the file. */
  check(): string {
    const word = (from: number, length: number): string =>
      this.#header.toString('latin1', from, from + length)
    if (word(0, MAGIC.length) !== MAGIC) throw new Error('the history has no magic')
    const version = this.#header.readUInt32LE(AT.version)
    if (version !== VERSION) throw new Error(`the history is of version ${version}, not ${VERSION}`)
    const guard = this.#header.readUInt32LE(AT.guard)
    if (guard !== GUARD) throw new Error(`the history has guards of ${guard} bytes, not ${GUARD}`)
    if (!Number.isSafeInteger(this.#end) || this.#end < 0) throw new Error(`the history ends at ${this.#end}`)
    if (this.#first > this.#end) throw new Error(`the history begins at ${this.#first}`)
    const session = word(AT.session, SESSION_BYTES)
    if (!SESSION_ID.test(session)) throw new Error('the history has no session id')
    return session
  }

  /** Notes an access to the memory. */
  #use(): void {
    this.#isUsed = true
    if (this.#isLoaded) return
    this.#isLoaded = true
    quietPages.watch(this.#pages)
  }

  release(): void {
    if (this.#mapping === undefined) return
    const mapping = this.#mapping
    this.#released = this.piece(0, RING_BYTES).slice()
    this.#mapping = undefined
    quietPages.forget(this.#pages)
    mapping.unmap()
  }
}
