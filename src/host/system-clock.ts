import type { Clock } from '../ports/clock.ts'

/** The host's own time. Timers do not keep the process alive, because a wait for one is not work under way. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
  random: () => Math.random(),
}
