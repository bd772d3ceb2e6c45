import { setTimeout as sleep } from 'node:timers/promises'

const LOOK_EVERY_MS = 20
const BOUND_MS = 60_000

/**
 * Calls `check` until it returns a value; a throw counts as not yet. Throws after the bound, with the last error as its
 * cause. It is level-triggered: it waits for a state, which cannot be missed.
 */
export async function until<T>(
  what: string,
  check: () => Promise<T | undefined>,
  boundMs = BOUND_MS,
): Promise<T> {
  const deadline = performance.now() + boundMs
  let cause: unknown
  for (;;) {
    try {
      const value = await check()
      if (value !== undefined) return value
    } catch (error) {
      cause = error
    }
    if (performance.now() > deadline) throw new Error(`not within ${boundMs / 1000} s: ${what}`, { cause })
    await sleep(LOOK_EVERY_MS)
  }
}
