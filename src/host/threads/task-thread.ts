import { Worker } from 'node:worker_threads'

/** The script of a thread: its URL, or its text. */
export type ThreadSource = () => URL | string

/** Starts a thread, which gets `data`, but nothing of the daemon's environment or flags. */
export function startThread(source: ThreadSource, data: unknown): Worker {
  const script = source()
  return new Worker(script, {
    eval: typeof script === 'string',
    workerData: data,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 },
  })
}

type TaskThreadOptions = {
  readonly source: ThreadSource
  readonly data?: unknown
  /** Returns the failure of all tasks, present and later, if the thread has thrown an error or ended by itself. */
  readonly failure: (thrown?: NodeJS.ErrnoException) => Error
}

type Pending<Answer> = {
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/** A thread that runs tasks in order, and answers each with one message. An idle one does not keep the process. */
export class TaskThread<Task, Answer> {
  readonly #worker: Worker
  readonly #pending: Pending<Answer>[] = []
  #failure: Error | undefined

  constructor({ source, data, failure }: TaskThreadOptions) {
    this.#worker = startThread(source, data)
    this.#worker.on('message', (answer: Answer) => this.#settle(answer))
    this.#worker.on('error', (thrown: NodeJS.ErrnoException) => this.#fail(failure(thrown)))
    this.#worker.on('exit', () => this.#fail(failure()))
    this.#worker.unref()
  }

  /** How many tasks have no answer yet. */
  get load(): number {
    return this.#pending.length
  }

  get isOver(): boolean {
    return this.#failure !== undefined
  }

  async run(task: Task): Promise<Answer> {
    if (this.#failure !== undefined) throw this.#failure
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    this.#pending.push({ resolve, reject })
    this.#worker.ref()
    this.#worker.postMessage(task, [])
    return promise
  }

  /** Ends the thread after the task under way; queued tasks are dropped. When this resolves, no task runs. */
  async end(): Promise<void> {
    await this.#worker.terminate()
  }

  #settle(answer: Answer): void {
    this.#pending.shift()?.resolve(answer)
    if (this.#pending.length === 0) this.#worker.unref()
  }

  #fail(error: Error): void {
    this.#failure ??= error
    for (const { reject } of this.#pending.splice(0)) reject(this.#failure)
  }
}
