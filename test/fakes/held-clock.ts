import { setImmediate } from 'node:timers/promises'
import { limits } from '../../src/config/limits.ts'
import { eventually } from '../daemon/support/eventually.ts'
import type { LinkTime } from '../../src/client/console/link.ts'

/** A clock that does not move by itself. The test wakes sleepers; pauses that `passes` accepts end at once. */
export class HeldClock implements LinkTime {
  nowMs = 0
  passes: (ms: number) => boolean
  readonly #sleepers = new Set<{ readonly ms: number; readonly wake: () => void }>()

  constructor(passes = (ms: number): boolean => ms === limits.clientConsoleSendEveryMs) {
    this.passes = passes
  }

  readonly monotonicMs = (): number => this.nowMs

  readonly sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted()
    if (this.passes(ms)) return await setImmediate(undefined, { signal })
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const sleeper = { ms, wake: resolve }
    this.#sleepers.add(sleeper)
    const giveUp = (): void => reject(signal.reason as Error)
    signal.addEventListener('abort', giveUp, { once: true })
    return await promise.finally(() => {
      this.#sleepers.delete(sleeper)
      signal.removeEventListener('abort', giveUp)
    })
  }

  /** Resolves when a caller sleeps for exactly `ms`. */
  async asleep(ms: number): Promise<void> {
    await eventually(() => [...this.#sleepers].some((sleeper) => sleeper.ms === ms))
  }

  /** Waits for the callers that sleep for `ms`, and wakes them. */
  async wake(ms: number): Promise<void> {
    await this.asleep(ms)
    for (const sleeper of this.#sleepers) {
      if (sleeper.ms !== ms) continue
      this.#sleepers.delete(sleeper)
      sleeper.wake()
    }
  }
}
