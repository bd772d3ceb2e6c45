import { open } from 'node:fs/promises'
import { readMap, dataFrom, isHoleToEnd, punchHole, writeOut } from '../ffi/file-extents.ts'
import type { FileHandle } from 'node:fs/promises'
import type { MapPage } from '../ffi/file-extents.ts'
import type { BoundedCalls } from './bounded-calls.ts'

/** The places for calls on one file system. */
export type FileGate = {
  readonly calls: BoundedCalls
  /** The places for calls that wait for the disk, which may take minutes. */
  readonly flushes: BoundedCalls
}

/** An open file. Each call on it takes one place of a gate. All calls throw NoAnswer in addition to Node's errors. */
export class GatedFile {
  readonly #gate: FileGate
  readonly #handle: FileHandle
  /** The calls as the gate took them. None takes longer than its bound. */
  readonly #taken = new Set<Promise<unknown>>()
  /** The same calls until they really end, including those that were given up. */
  readonly #running = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  private constructor(gate: FileGate, handle: FileHandle) {
    this.#gate = gate
    this.#handle = handle
  }

  static async open(gate: FileGate, path: string, flags: string | number, mode?: number): Promise<GatedFile> {
    let isWanted = true
    const opening = async (): Promise<FileHandle> => {
      const handle = await open(path, flags, mode)
      if (!isWanted) await handle.close()
      return handle
    }
    try {
      return new GatedFile(gate, await gate.calls.take(opening, { about: [path] }))
    } finally {
      isWanted = false
    }
  }

  get fd(): number {
    return this.#handle.fd
  }

  read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesRead: number }> {
    return this.#call(() => this.#handle.read(buffer, offset, length, position))
  }

  write(
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesWritten: number }> {
    return this.#call(() => this.#handle.write(bytes, offset, length, position))
  }

  readonly stat = ((options) => this.#call(() => this.#handle.stat(options))) as FileHandle['stat']

  readText(): Promise<string> {
    return this.#call(() => this.#handle.readFile('utf8'))
  }

  writeFile(content: string | Uint8Array): Promise<void> {
    return this.#call(() => this.#handle.writeFile(content))
  }

  chmod(mode: number): Promise<void> {
    return this.#call(() => this.#handle.chmod(mode))
  }

  chown(uid: number, gid: number): Promise<void> {
    return this.#call(() => this.#handle.chown(uid, gid))
  }

  truncate(bytes: number): Promise<void> {
    return this.#call(() => this.#handle.truncate(bytes))
  }

  dataFrom(offset: number): Promise<number | undefined> {
    return this.#call(() => dataFrom(this.fd, offset))
  }

  isHoleToEnd(offset: number): Promise<boolean> {
    return this.#call(() => isHoleToEnd(this.fd, offset))
  }

  readMap(from: number, count: number): Promise<MapPage | undefined> {
    return this.#call(() => readMap(this.fd, from, count))
  }

  punchHole(offset: number, length: number): Promise<boolean> {
    return this.#call(() => punchHole(this.fd, offset, length))
  }

  sync(): Promise<void> {
    return this.#call(() => this.#handle.sync(), this.#gate.flushes)
  }

  datasync(): Promise<void> {
    return this.#call(() => this.#handle.datasync(), this.#gate.flushes)
  }

  writeOut(offset: number, length: number): Promise<boolean> {
    return this.#call(() => writeOut(this.fd, offset, length), this.#gate.flushes)
  }

  /**
   * Waits for the calls under way. If a call was given up, or calls hang in all places, this does not wait for them:
   * the file is closed when they have ended. Throws no NoAnswer.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#taken)
    // The handle must not be lost before it is closed: Node ends the process when it collects an open one.
    const close = (): Promise<void> => this.#gate.calls.takeAtLast(() => this.#handle.close())
    if (this.#running.size === 0) return close()
    Promise.allSettled(this.#running)
      .then(close)
      .catch(() => {})
    return undefined
  }

  #call<T>(call: () => Promise<T>, calls = this.#gate.calls): Promise<T> {
    const taken = calls.take(() => noted(this.#running, call()))
    return noted(this.#taken, taken)
  }
}

/** Keeps a promise in a set until it settles. */
function noted<T>(set: Set<Promise<unknown>>, promise: Promise<T>): Promise<T> {
  const forget = (): void => void set.delete(promise)
  set.add(promise)
  promise.then(forget, forget)
  return promise
}
