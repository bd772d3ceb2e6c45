import type { GatedFile } from '../files/gated-file.ts'

/** Collects smaller pieces, so that a hole of the image does not cause a write of its own. */
const BUFFER_BYTES = 256 * 1024

/** A file that grows at its end. It accepts one call at a time. */
export class AppendedFile {
  readonly #handle: GatedFile
  readonly #buffer = Buffer.allocUnsafe(BUFFER_BYTES)
  #filled = 0
  #written: number

  /** @param bytes the file's size */
  constructor(handle: GatedFile, bytes: number) {
    this.#handle = handle
    this.#written = bytes
  }

  get fd(): number {
    return this.#handle.fd
  }

  get writtenBytes(): number {
    return this.#written
  }

  /** The size, including what is still buffered. */
  get bytes(): number {
    return this.#written + this.#filled
  }

  set bytes(bytes: number) {
    this.#written = bytes
    this.#filled = 0
  }

  /** Appends bytes, and copies them. */
  async append(bytes: Uint8Array): Promise<void> {
    if (this.#filled + bytes.length > BUFFER_BYTES) await this.flush()
    if (bytes.length > BUFFER_BYTES) return this.#write(bytes)
    this.#buffer.set(bytes, this.#filled)
    this.#filled += bytes.length
    return undefined
  }

  /** Writes what is buffered. */
  async flush(): Promise<void> {
    const gathered = this.#buffer.subarray(0, this.#filled)
    await this.#write(gathered)
    this.#filled = 0
  }

  async sync(): Promise<void> {
    await this.#handle.datasync()
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  /** Yields what is written, from the start. Each chunk is valid until the next one is requested. */
  async *read(chunkBytes: number): AsyncGenerator<Uint8Array, void> {
    const buffer = Buffer.allocUnsafe(chunkBytes)
    for (let at = 0; ;) {
      let filled = 0
      while (filled < chunkBytes) {
        const { bytesRead } = await this.#handle.read(buffer, filled, chunkBytes - filled, at + filled)
        if (bytesRead === 0) break
        filled += bytesRead
      }
      if (filled > 0) yield buffer.subarray(0, filled)
      if (filled < chunkBytes) return
      at += filled
    }
  }

  async #write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await this.#handle.write(bytes, at, bytes.length - at, this.#written)
      at += bytesWritten
      this.#written += bytesWritten
    }
  }
}
