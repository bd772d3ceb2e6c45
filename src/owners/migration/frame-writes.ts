import type { Frame } from '../../core/migration/frames.ts'
import type { IncomingFile } from '../../ports/incoming-file.ts'

/** Writes frames in their order, one behind the other: the next one arrives while the last is written. */
export class FrameWrites {
  readonly #file: Pick<IncomingFile, 'write'>
  #writing: Promise<void> = Promise.resolve()

  constructor(file: Pick<IncomingFile, 'write'>) {
    this.#file = file
  }

  /** Begins to write a frame, whose bytes may be used again once this resolves. Throws the fault of the one before. */
  async add(frame: Frame): Promise<void> {
    const own = frame.kind === 'data' ? { ...frame, bytes: Uint8Array.from(frame.bytes) } : frame
    await this.#writing
    this.#writing = this.#file.write(own)
    // The next call throws it.
    this.#writing.catch(() => {})
  }

  /** Resolves when all frames are written. Throws the fault of the last one. */
  end(): Promise<void> {
    return this.#writing
  }

  /** Resolves when nothing is being written, whether or not that succeeded. */
  async settled(): Promise<void> {
    await this.#writing.catch(() => {})
  }
}
