import { setTimeout as delay } from 'node:timers/promises'

/** Waits until `condition` holds, at most five seconds. */
export async function eventually(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 5000
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`it did not come to hold: ${condition.toString()}`)
    await delay(5)
  }
}
