import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { TaskThread } from '../threads/task-thread.ts'
import type { ThreadSource } from '../threads/task-thread.ts'
import type { CompressTerms, Digests, DigestOf, Stretch } from './thread-tasks.ts'
import type { ThreadAnswer, ThreadSetting, ThreadTask } from './thread-tasks.ts'

export const threadBesideThis: ThreadSource = () => new URL('./pack-thread.ts', import.meta.url)

/** Thrown when a file ends before the end of the stretch that a thread had to read. */
export class StretchCutShort extends Error {
  override readonly name = 'StretchCutShort'
}

/** A thread that runs its tasks in order. */
export class PackThread {
  readonly #thread: TaskThread<ThreadTask, ThreadAnswer>

  constructor(source: ThreadSource) {
    const data: ThreadSetting = { nice: limits.packNice }
    this.#thread = new TaskThread({
      source,
      data,
      failure: (thrown) => threadFault(thrown?.code ?? thrown?.name ?? 'it ended by itself'),
    })
  }

  /** How many tasks have no answer yet. */
  get load(): number {
    return this.#thread.load
  }

  get isOver(): boolean {
    return this.#thread.isOver
  }

  async compress(stretch: Stretch, terms: CompressTerms): Promise<Uint8Array<ArrayBuffer>> {
    const answer = await this.#run({ kind: 'compress', ...terms, ...stretch })
    if (answer.kind === 'unwanted') throw UNWANTED
    return (answer as Extract<ThreadAnswer, { kind: 'frame' }>).frame
  }

  async digest(of: DigestOf, stretch: Stretch): Promise<void> {
    await this.#run({ kind: 'digest', of, ...stretch })
  }

  async digestZeros(of: DigestOf, bytes: number): Promise<void> {
    await this.#run({ kind: 'digest-zeros', of, bytes })
  }

  async endDigest(of: DigestOf): Promise<Digests> {
    const answer = await this.#run({ kind: 'end-digest', of })
    return (answer as Extract<ThreadAnswer, { kind: 'digests' }>).digests
  }

  /** Ends the thread soon: queued tasks are dropped. When this resolves, the thread no longer reads a file. */
  async end(): Promise<void> {
    await this.#thread.end()
  }

  async #run(task: ThreadTask): Promise<ThreadAnswer> {
    const answer = await this.#thread.run(task)
    if (answer.kind === 'cut-short') throw new StretchCutShort('it ends before its time')
    if (answer.kind !== 'failed') return answer
    if (answer.errno !== undefined) throw new ErrnoError(answer.because, -answer.errno)
    throw threadFault(answer.because)
  }
}

const UNWANTED = new Error('the packing was given up')

const threadFault = (because: string): HostFault =>
  new HostFault('storage_failed', 'compressing in a thread', { cause: new Error(because) })

/** The threads that compress, shared by all packings at the same time. They exist while a packing runs. */
export class CompressThreads {
  readonly count: number
  readonly #source: ThreadSource
  #threads: PackThread[] = []
  #users = 0

  constructor(source: ThreadSource, count: number) {
    this.#source = source
    this.count = count
  }

  /**
   * Lets `task` use the threads. Once all its calls of `compress` have settled, the threads no longer read its files.
   */
  async use<T>(task: () => Promise<T>): Promise<T> {
    this.#users += 1
    try {
      return await task()
    } finally {
      this.#users -= 1
      if (this.#users === 0) await Promise.all(this.#threads.splice(0).map((thread) => thread.end()))
    }
  }

  compress(stretch: Stretch, terms: CompressTerms): Promise<Uint8Array<ArrayBuffer>> {
    this.#threads = this.#threads.filter((thread) => !thread.isOver)
    while (this.#threads.length < this.count) this.#threads.push(new PackThread(this.#source))
    const [first, ...others] = this.#threads
    let idlest = first as PackThread
    for (const thread of others) if (thread.load < idlest.load) idlest = thread
    return idlest.compress(stretch, terms)
  }
}
