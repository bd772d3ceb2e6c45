import { setTimeout as delay } from 'node:timers/promises'

/** Asks again until `done` accepts the answer; fails after `boundMs` with the last answer. */
export async function until<T>(
  ask: () => Promise<T> | T,
  done: (answer: T) => boolean,
  boundMs = 20_000,
): Promise<T> {
  const giveUpAt = performance.now() + boundMs
  for (;;) {
    const answer = await ask()
    if (done(answer)) return answer
    if (performance.now() > giveUpAt) {
      throw new Error(`still not so after ${boundMs} ms: …${JSON.stringify(answer ?? null).slice(-2000)}`)
    }
    await delay(10)
  }
}
