import { Worker } from 'node:worker_threads'

/** The script of a thread: where it stands, or its text. */
export type ThreadSource = () => URL | string

/** Starts a thread, which is given `data`. Nothing of the daemon's environment or flags is of use to it. */
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
