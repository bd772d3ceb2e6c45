import { MIB } from '../../lib/byte-units.ts'

/** The bytes of one write to the disk. */
const BUFFER_BYTES = MIB
/** Zeros are left out in blocks of this size, a multiple of any file system's block. */
const BLOCK_BYTES = 64 * 1024
const ZEROS = Buffer.alloc(BLOCK_BYTES)

/** An empty file that is open for writing. */
export type SparseTarget = {
  write(
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesWritten: number }>
  truncate(bytes: number): Promise<void>
}

/**
 * Writes a new file from start to end, and turns blocks of zeros into holes. One buffer is filled while another is
 * written. So a later call reports a failed write, at the latest `finish`.
 */
export class SparseFile {
  readonly #target: SparseTarget
  #buffer = Buffer.allocUnsafe(BUFFER_BYTES)
  #spare = Buffer.allocUnsafe(BUFFER_BYTES)
  #filled = 0
  /** The bytes before the buffer, which are written or being written. */
  #given = 0
  #writing: Promise<void> = Promise.resolve()
  #written = 0

  constructor(target: SparseTarget) {
    this.#target = target
  }

  /** Returns how many bytes from the start are written and will not change. */
  get writtenBytes(): number {
    return this.#written
  }

  /** Writes a chunk, and copies it. */
  async write(chunk: Uint8Array): Promise<void> {
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + BUFFER_BYTES - this.#filled)
      this.#buffer.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === BUFFER_BYTES) await this.#flush()
    }
  }

  /** Writes the rest and sets the size. The file is not yet synced. */
  async finish(): Promise<void> {
    await this.#flush()
    await this.#writing
    await this.#target.truncate(this.#given)
  }

  /** Resolves when no write is under way. */
  async settle(): Promise<void> {
    await this.#writing.catch(() => {})
  }

  /** Resolves when the buffer may be filled again. */
  async #flush(): Promise<void> {
    await this.#writing
    const filled = this.#buffer.subarray(0, this.#filled)
    this.#writing = this.#putData(filled, this.#given)
    // The next call waits for it and reports its failure.
    this.#writing.catch(() => {})
    this.#given += filled.length
    this.#filled = 0
    const buffer = this.#buffer
    this.#buffer = this.#spare
    this.#spare = buffer
  }

  async #putData(bytes: Buffer, position: number): Promise<void> {
    let dataFrom = 0
    for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
      const block = bytes.subarray(at, at + BLOCK_BYTES)
      if (!block.equals(ZEROS.subarray(0, block.length))) continue
      await this.#put(bytes.subarray(dataFrom, at), position + dataFrom)
      dataFrom = at + block.length
    }
    await this.#put(bytes.subarray(dataFrom), position + dataFrom)
    this.#written = position + bytes.length
  }

  async #put(bytes: Uint8Array, position: number): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await this.#target.write(bytes, at, bytes.length - at, position + at)
      at += bytesWritten
    }
  }
}
