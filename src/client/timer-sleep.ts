import { setTimeout as timer } from 'node:timers/promises'

/** Resolves after so many milliseconds. Rejects with an AbortError when the signal is raised. */
export const timerSleep = (ms: number, signal: AbortSignal): Promise<void> => timer(ms, undefined, { signal })
