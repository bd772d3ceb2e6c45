import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'

/** What is written to the disk at once. */
const BUFFER_BYTES = 1024 * 1024
/** Zeros are left out in pieces of this size, a multiple of any file system's block. */
const BLOCK_BYTES = 64 * 1024
const ZEROS = Buffer.alloc(BLOCK_BYTES)

/** A new file written from its start to its end, in which blocks of zeros become holes. */
export class SparseFile {
  readonly #handle: FileHandle
  readonly #buffer = Buffer.allocUnsafe(BUFFER_BYTES)
  #filled = 0
  /** Bytes before the buffer. */
  #written = 0

  private constructor(handle: FileHandle) {
    this.#handle = handle
  }

  static async create(path: string): Promise<SparseFile> {
    return new SparseFile(await open(path, 'wx', 0o600))
  }

  async write(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + BUFFER_BYTES - this.#filled)
      this.#buffer.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === BUFFER_BYTES) await this.#flush()
    }
  }

  /** Writes the rest, sets the size and closes; the file is not yet synced. */
  async finish(): Promise<void> {
    await this.#flush()
    await this.#handle.truncate(this.#written)
    await this.#handle.close()
  }

  /** Closes the file as it is; does nothing after `finish`. */
  async close(): Promise<void> {
    await this.#handle.close()
  }

  async #flush(): Promise<void> {
    const filled = this.#buffer.subarray(0, this.#filled)
    let dataFrom = 0
    for (let at = 0; at < filled.length; at += BLOCK_BYTES) {
      const block = filled.subarray(at, at + BLOCK_BYTES)
      if (!block.equals(ZEROS.subarray(0, block.length))) continue
      await this.#put(filled.subarray(dataFrom, at), this.#written + dataFrom)
      dataFrom = at + block.length
    }
    await this.#put(filled.subarray(dataFrom), this.#written + dataFrom)
    this.#written += filled.length
    this.#filled = 0
  }

  async #put(bytes: Uint8Array, position: number): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await this.#handle.write(bytes, at, bytes.length - at, position + at)
      at += bytesWritten
    }
  }
}
