/** A signal that never aborts. */
export const never: AbortSignal = new AbortController().signal

/**
 * Settles as `promise` does, or rejects with the signal's reason as soon as that aborts; `promise` itself continues.
 */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** The part of a clock that makes timers; the returned function cancels. */
type Timers = { after(ms: number, callback: () => void): () => void }

/** Resolves after `ms`. Rejects with the signal's reason as soon as that aborts. No timer stays behind. */
export function pause(clock: Timers, ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const cancel = clock.after(ms, resolve)
  return abortable(promise, signal).finally(cancel)
}
