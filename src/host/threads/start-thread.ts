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
