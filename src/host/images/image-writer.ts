import type { Worker } from 'node:worker_threads'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { abortable } from '../../lib/abortable.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { startThread } from '../threads/task-thread.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import type { ThreadSource } from '../threads/task-thread.ts'
import type { GatedFile } from '../files/gated-file.ts'
import type { FromImageThread, ToImageThread } from './image-thread.ts'
import type { StoreTerms } from './store-content.ts'

export const imageThreadBesideThis: ThreadSource = () => new URL('./image-thread.ts', import.meta.url)

/** The size and number of the chunks that are transferred to the thread: while it works on one, others are filled. */
const CHUNK_BYTES = 512 * 1024
const CHUNKS_MAX = 4

export type ImageWriterOptions = {
  readonly source: ThreadSource
  /** A new file, which the writer will close. */
  readonly file: GatedFile
  readonly terms: StoreTerms
  readonly signal: AbortSignal
  /**
   * Called before a failure with `storage_full`, with the room above the reserve that there was for the file, in bytes.
   */
  readonly onShort?: (roomBytes: number) => void
  /** How long a write may take; absent: `limits.poolCallMs`. */
  readonly boundMs?: number
}

/**
 * Stores one image in a file. A separate thread decompresses, verifies and writes the chunks. Meanwhile, written data
 * is already flushed to the disk, so the sync at the end has little left to do.
 */
export class ImageWriter {
  readonly #thread: Worker
  readonly #file: GatedFile
  readonly #signal: AbortSignal
  readonly #onShort: ImageWriterOptions['onShort']
  readonly #outcome = Promise.withResolvers<void>()
  /** Why the writer accepts no further bytes. */
  failure: unknown
  /** How many chunks the thread has. */
  #atThread = 0
  /** All bytes were handed to the thread. */
  #isWhole = false
  /** The writer has ended or failed, and ignores further chunks. */
  #isOver = false
  readonly #unused = Array.from({ length: CHUNKS_MAX }, () => new ArrayBuffer(CHUNK_BYTES))
  #onUnused: () => void = () => {}
  #chunk: Uint8Array<ArrayBuffer> | undefined
  #filled = 0
  #written = 0
  #writtenOut = 0
  #writingOut: Promise<void> | undefined
  readonly #ended = Promise.withResolvers<void>()
  #hasEnded = false
  /** Whether the thread sent a message since the last check. */
  #wasHeard = true
  readonly #watch: NodeJS.Timeout

  constructor({ source, file, terms, signal, onShort, boundMs = limits.poolCallMs }: ImageWriterOptions) {
    this.#file = file
    this.#signal = signal
    this.#onShort = onShort
    this.#thread = startThread(source, { ...terms, fd: file.fd })
    this.#thread.on('message', (message: FromImageThread) => this.#hear(message))
    this.#thread.on('error', (error) => this.#fail(endedBy(error)))
    this.#thread.on('exit', () => {
      this.#hasEnded = true
      this.#ended.resolve()
      this.#fail(threadFault('it ended by itself'))
    })
    this.#watch = setInterval(() => this.#look(boundMs), boundMs)
    // `finish` reports the failure.
    this.#outcome.promise.catch(() => {})
  }

  /** Must be called first; `unpacks` if the source sends zstd frames. */
  begin(unpacks: boolean): void {
    this.#post({ kind: 'begin', unpacks })
  }

  /** Takes the next bytes, and copies them. Returns false if the writer has failed and accepts nothing further. */
  async put(bytes: Uint8Array): Promise<boolean> {
    for (let at = 0; at < bytes.length;) {
      this.#chunk ??= await this.#room()
      if (this.#isOver || this.#chunk === undefined) return false
      const part = bytes.subarray(at, at + CHUNK_BYTES - this.#filled)
      this.#chunk.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === CHUNK_BYTES) this.#handOver()
    }
    return !this.#isOver
  }

  /**
   * Waits until everything is stored; all bytes must have been put. Throws HostFault, ErrnoError and the signal's
   * reason.
   */
  async finish(): Promise<void> {
    this.#handOver()
    this.#isWhole = true
    this.#post({ kind: 'end' })
    await abortable(this.#outcome.promise, this.#signal)
    await this.#writingOut
  }

  /** Whether the thread has ended and no longer uses the file. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  get ended(): Promise<void> {
    return this.#ended.promise
  }

  /**
   * Stops the thread, and closes the file. It does not wait for a write that hangs: both then happen when that write
   * ends.
   */
  async end(): Promise<void> {
    this.#isOver = true
    clearInterval(this.#watch)
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, limits.hostLookMs)
    try {
      await Promise.race([this.#end(), late.promise])
    } finally {
      clearTimeout(timer)
    }
  }

  async #end(): Promise<void> {
    await this.#thread.terminate()
    await this.#writingOut?.catch(() => {})
    await this.#file.close()
  }

  /** Fails if the thread has work but sent no message since the last check: then it hangs in a write. */
  #look(boundMs: number): void {
    const isIdle = this.#isOver || (this.#atThread === 0 && !this.#isWhole)
    if (!this.#wasHeard && !isIdle) this.#fail(new NoAnswer(`no answer for ${boundMs / 1000} s`))
    this.#wasHeard = isIdle
  }

  #handOver(): void {
    if (this.#chunk === undefined) return
    const chunk = this.#chunk.subarray(0, this.#filled)
    this.#chunk = undefined
    this.#filled = 0
    this.#atThread += 1
    this.#post({ kind: 'chunk', chunk }, [chunk.buffer])
  }

  #post(message: ToImageThread, handedOver: ArrayBuffer[] = []): void {
    this.#thread.postMessage(message, handedOver)
  }

  async #room(): Promise<Uint8Array<ArrayBuffer> | undefined> {
    while (this.#unused.length === 0 && !this.#isOver) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#onUnused = resolve
      await abortable(promise, this.#signal)
    }
    const buffer = this.#unused.pop()
    return buffer && new Uint8Array(buffer)
  }

  #hear(message: FromImageThread): void {
    this.#wasHeard = true
    switch (message.kind) {
      case 'used':
        this.#atThread -= 1
        this.#unused.push(message.buffer)
        this.#onUnused()
        return
      case 'written':
        this.#written = message.bytes
        this.#writingOut ??= this.#writeOut()
        // `finish` reports the failure.
        this.#writingOut.catch(() => {})
        return
      case 'short':
        this.#onShort?.(message.roomBytes)
        return
      case 'stored':
        this.#outcome.resolve()
        this.#isOver = true
        return
      case 'fault': {
        const { code, doing, why } = message
        return this.#fail(new HostFault(code, doing, { cause: new Error(why) }))
      }
      case 'errno':
        return this.#fail(new ErrnoError(message.doing, -message.errno))
      default:
        return message satisfies never
    }
  }

  /** Flushes one stretch after another, each with everything written by then. */
  async #writeOut(): Promise<void> {
    while (this.#writtenOut < this.#written && !this.#isOver) {
      const from = this.#writtenOut
      this.#writtenOut = this.#written
      if (!(await this.#file.writeOut(from, this.#written - from)))
        throw new HostFault('storage_failed', 'writing it to the disk')
    }
    this.#writingOut = undefined
  }

  #fail(error: unknown): void {
    this.#isOver = true
    this.failure ??= error
    this.#outcome.reject(error)
    this.#onUnused()
  }
}

/** Returns a fault for Node's own thread errors. Any other error is a bug in our code, and is returned as it is. */
const endedBy = (error: unknown): unknown => {
  const { code } = error as NodeJS.ErrnoException
  return code?.startsWith('ERR_WORKER_') === true ? threadFault(code) : error
}

const threadFault = (because: string): HostFault =>
  new HostFault('storage_failed', 'storing it in a thread', { cause: new Error(because) })
