import type { Worker } from 'node:worker_threads'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { abortable } from '../../lib/abortable.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { startThread } from '../threads/start-thread.ts'
import { NoAnswer } from './bounded-calls.ts'
import type { ThreadSource } from '../threads/start-thread.ts'
import type { GatedFile } from './gated-file.ts'
import type { FromImageThread, ToImageThread } from './image-messages.ts'
import type { StoreTerms } from './store-content.ts'

export const imageThreadBesideThis: ThreadSource = () => new URL('./image-thread.ts', import.meta.url)

/** What is handed to the thread at once, and how much of that there is: while it works at one, others are filled. */
const CHUNK_BYTES = 512 * 1024
const CHUNKS_MAX = 4

export type ImageWriterOptions = {
  readonly source: ThreadSource
  /** A new file, which the writer closes. */
  readonly file: GatedFile
  readonly terms: StoreTerms
  readonly signal: AbortSignal
  /** How long a write may take; `limits.poolCallMs` where absent. */
  readonly boundMs?: number
}

/**
 * Stores one image in a file: a thread of its own unpacks, verifies and writes what it is handed, and meanwhile what is
 * written begins to go to the disk, so that a sync at the end finds little to do.
 */
export class ImageWriter {
  readonly #thread: Worker
  readonly #file: GatedFile
  readonly #signal: AbortSignal
  readonly #outcome = Promise.withResolvers<void>()
  /** Why it wants nothing more. */
  failure: unknown
  /** Chunks that the thread has. */
  #atThread = 0
  /** All was handed over. */
  #isWhole = false
  /** Nothing that is handed over is of use any more. */
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
  /** Whether the thread said something since the last look at that. */
  #wasHeard = true
  readonly #watch: NodeJS.Timeout

  constructor({ source, file, terms, signal, boundMs = limits.poolCallMs }: ImageWriterOptions) {
    this.#file = file
    this.#signal = signal
    this.#thread = startThread(source, { ...terms, fd: file.fd })
    this.#thread.on('message', (message: FromImageThread) => this.#hear(message))
    this.#thread.on('error', (error) => this.#fail(endedBy(error)))
    this.#thread.on('exit', () => {
      this.#hasEnded = true
      this.#ended.resolve()
      this.#fail(threadFault('it ended by itself'))
    })
    this.#watch = setInterval(() => this.#look(boundMs), boundMs)
    // Told to whom asks for it.
    this.#outcome.promise.catch(() => {})
  }

  /** Before anything else; `unpacks` where zstd frames come. */
  begin(unpacks: boolean): void {
    this.#tell({ kind: 'begin', unpacks })
  }

  /** Takes what comes next, which it does not keep. False where no more is wanted, since it has failed. */
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

  /** All has come. Throws HostFault, ErrnoError and the signal's reason. */
  async finish(): Promise<void> {
    this.#handOver()
    this.#isWhole = true
    this.#tell({ kind: 'end' })
    await abortable(this.#outcome.promise, this.#signal)
    await this.#writingOut
  }

  /** Nothing is done with the file any more. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  get ended(): Promise<void> {
    return this.#ended.promise
  }

  /** Ends it where it is, and closes the file. A write that hangs is not waited for: both are done when it ends. */
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

  /** What is handed over is worked at, and the thread tells of that. One that says nothing hangs in a write. */
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
    this.#tell({ kind: 'chunk', chunk }, [chunk.buffer])
  }

  #tell(message: ToImageThread, handedOver: ArrayBuffer[] = []): void {
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
        // Told at the end.
        this.#writingOut.catch(() => {})
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

  /** One stretch at a time, of all that is written by then. */
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

/** What is not Node's own about a thread is a bug in ours, and passes. */
const endedBy = (error: unknown): unknown => {
  const { code } = error as NodeJS.ErrnoException
  return code?.startsWith('ERR_WORKER_') === true ? threadFault(code) : error
}

const threadFault = (because: string): HostFault =>
  new HostFault('storage_failed', 'storing it in a thread', { cause: new Error(because) })
