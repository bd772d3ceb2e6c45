import type { Clock } from '../ports/clock.ts'

let pending = 0

/** Returns how many timers of this clock have neither fired nor been cancelled. */
export const pendingTimers = (): number => pending

/** The host's own time. Timers do not keep the process alive, because a wait for one is not work under way. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(ms, callback) {
    let isPending = true
    const end = (): void => {
      if (isPending) pending -= 1
      isPending = false
    }
    pending += 1
    const timer = setTimeout(() => {
      end()
      callback()
    }, ms)
    timer.unref()
    return () => {
      end()
      clearTimeout(timer)
    }
  },
  random: () => Math.random(),
}
