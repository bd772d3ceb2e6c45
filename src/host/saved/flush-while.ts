import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { GatedFile } from '../files/gated-file.ts'
import type { SavedWhileFlushing } from '../../ports/saved-states.ts'
import { orStorageFault } from '../files/storage-fault.ts'

export type FlushingWhile = {
  readonly doing: string
  /** Takes turns among all saves for calls that hold a thread for long. */
  readonly flushes: Semaphore
  /** Reads a monotonic clock; absent: this process's. */
  readonly nowMs?: () => number
}

/**
 * Runs `saving`, in which another process writes the file, and meanwhile flushes what has come. Afterwards closes the
 * file, without the caller waiting for it. Throws what `saving` throws. The caller must wait for `flushed` before the
 * file counts as saved, because no later flush reports such a failure again.
 */
export async function flushWhile<T>(
  file: Pick<GatedFile, 'datasync' | 'close'>,
  saving: () => Promise<T>,
  { doing, flushes, nowMs = () => performance.now() }: FlushingWhile,
): Promise<SavedWhileFlushing<T>> {
  const over = new AbortController()
  const flush = (): Promise<void> => flushes.run(() => file.datasync(), over.signal)
  const flushed = orStorageFault(doing, async () => {
    try {
      await flushUntil(over.signal, flush, nowMs)
    } finally {
      await file.close()
    }
  })
  // Reported to the caller that waits, if the save is not given up before.
  flushed.catch(() => {})
  try {
    return { saved: await saving(), flushed }
  } finally {
    over.abort()
  }
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
