import { pause } from '../../lib/abortable.ts'

const clock = {
  after(ms: number, callback: () => void): () => void {
    const timer = setTimeout(callback, ms)
    return () => clearTimeout(timer)
  },
}

/** Resolves after so many milliseconds, or rejects when the signal is raised. */
export const sleep = (ms: number, signal: AbortSignal): Promise<void> => pause(clock, ms, signal)
