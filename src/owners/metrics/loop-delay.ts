import { limits } from '../../config/limits.ts'
import type { Clock } from '../../ports/clock.ts'

/** Measures how long the event loop is busy: a timer fires as much too late as something keeps it from firing. */
export class LoopDelay {
  readonly #clock: Pick<Clock, 'monotonicMs' | 'after'>
  readonly #note: (ms: number) => void
  #cancel = (): void => {}

  /** @param note gets the delay of each look, in milliseconds */
  constructor(clock: Pick<Clock, 'monotonicMs' | 'after'>, note: (ms: number) => void) {
    this.#clock = clock
    this.#note = note
  }

  start(): void {
    const dueMs = this.#clock.monotonicMs() + limits.loopDelayEveryMs
    this.#cancel = this.#clock.after(limits.loopDelayEveryMs, () => {
      this.#note(Math.max(0, this.#clock.monotonicMs() - dueMs))
      this.start()
    })
  }

  stop(): void {
    this.#cancel()
  }
}
