import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { storageFault } from '../files/storage-fault.ts'

export type FlushingWhile = {
  readonly doing: string
  /** Takes turns among all saves for calls that hold a thread for long. */
  readonly flushes: Semaphore
  /** Ends the wait for the last flush. */
  readonly signal: AbortSignal
  /** Reads a monotonic clock; absent: this process's. */
  readonly nowMs?: () => number
}

/**
 * Runs `saving`, in which another process writes the file, and meanwhile flushes what has come. Closes the file. If
 * `saving` fails, this does not wait for the disk. Throws what `saving` throws, the signal's reason, and HostFault if a
 * flush fails: no later flush reports that failure again.
 */
export async function flushWhile<T>(
  file: Pick<GatedFile, 'datasync' | 'close'>,
  saving: () => Promise<T>,
  { doing, flushes, signal, nowMs = () => performance.now() }: FlushingWhile,
): Promise<T> {
  const over = new AbortController()
  const flush = (): Promise<void> => flushes.run(() => file.datasync(), over.signal)
  const flushing = flushUntil(over.signal, flush, nowMs).then(
    () => file.close(),
    async (error: unknown) => {
      await file.close()
      throw error
    },
  )
  // Reported below, unless the save has a failure of its own.
  flushing.catch(() => {})
  let saved: T
  try {
    saved = await saving()
  } finally {
    over.abort()
  }
  try {
    await abortable(flushing, signal)
  } catch (error) {
    signal.throwIfAborted()
    throw storageFault(error, doing)
  }
  return saved
}

/**
 * Flushes again and again, as long as the disk keeps up: then each flush has only what came during the one before. On a
 * slower disk each would have more, and a guest that goes on would wait behind it. There, most of the time goes to the
 * last flush in any case.
 */
async function flushUntil(over: AbortSignal, flush: () => Promise<void>, nowMs: () => number): Promise<void> {
  while (!over.aborted) {
    const beganMs = nowMs()
    try {
      await flush()
    } catch (error) {
      // It still waited for its turn when the save was over.
      if (over.aborted && error === over.reason) return
      throw error
    }
    if (nowMs() - beganMs > limits.saveFlushMsMax) return
    await delay(limits.saveFlushPauseMs)
  }
}
