import { setTimeout as delay } from 'node:timers/promises'

/** Far more than a busy machine needs: a test that would fail waits for so long. */
const BOUND_MS = 20_000

/** Waits until `condition` holds, at most {@link BOUND_MS}. */
export async function eventually(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + BOUND_MS
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`it did not come to hold: ${condition.toString()}`)
    await delay(5)
  }
}
