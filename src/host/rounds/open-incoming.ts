import { HostFault } from '../../core/errors.ts'
import type { Frame } from '../../core/migration/frames.ts'
import { assert } from '../../lib/assert.ts'
import type { IncomingFile } from '../../ports/incoming-file.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { storageFault } from '../files/storage-fault.ts'

export type OpenIncomingOptions = {
  /** Has its length already. */
  readonly file: GatedFile
  readonly lengthBytes: number
  /** The file in words, for faults. */
  readonly about: string
  /** Called when a call was given up, which may still take effect. */
  readonly onNoAnswer?: () => void
  readonly onClose?: () => void
}

/** An incoming file while frames are written to it. */
export class OpenIncoming implements IncomingFile {
  readonly #file: GatedFile
  readonly #options: OpenIncomingOptions
  #hasFailed = false

  constructor(options: OpenIncomingOptions) {
    this.#file = options.file
    this.#options = options
  }

  async write(frame: Frame): Promise<void> {
    assert(frame.offset + frame.length <= this.#options.lengthBytes, 'a frame lies within its file')
    await this.#run('writing to', (doing) => this.#write(frame, doing))
  }

  async #write(frame: Frame, doing: string): Promise<void> {
    if (frame.kind === 'hole') {
      const isMade = await this.#file.punchHole(frame.offset, frame.length)
      if (!isMade) throw new HostFault('storage_failed', doing)
      return
    }
    const { bytes, offset, length } = frame
    for (let at = 0; at < length;) {
      const { bytesWritten } = await this.#file.write(bytes, at, length - at, offset + at)
      at += bytesWritten
    }
  }

  flush(): Promise<void> {
    return this.#run('flushing', () => this.#file.sync())
  }

  async close(): Promise<void> {
    try {
      await this.#file.close()
    } finally {
      this.#options.onClose?.()
    }
  }

  /**
   * Runs one call. After a failure none is run: a write that failed would leave a gap, and a flush that failed once
   * succeeds the next time without what it lost (fsync(2)).
   */
  async #run(verb: string, call: (doing: string) => Promise<void>): Promise<void> {
    const doing = `${verb} ${this.#options.about}`
    if (this.#hasFailed) {
      const cause = new Error('an earlier call on it failed')
      throw new HostFault('storage_failed', doing, { cause })
    }
    try {
      await call(doing)
    } catch (error) {
      this.#hasFailed = true
      if (error instanceof NoAnswer) this.#options.onNoAnswer?.()
      throw storageFault(error, doing)
    }
  }
}
