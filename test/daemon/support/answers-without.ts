import assert from 'node:assert/strict'
import type { Call, ControllerHost } from './controller-host.ts'

/** Makes the calls, and returns their distinct statuses, sorted. No answer may contain the canary. */
export async function answersWithout(
  canary: string,
  host: Pick<ControllerHost, 'call'>,
  calls: readonly Call[],
): Promise<number[]> {
  const statuses = new Set<number>()
  for (const call of calls) {
    const answer = await host.call(call)
    statuses.add(answer.status)
    assert.ok(!answer.text.includes(canary), `${JSON.stringify(call)} was answered ${answer.text}`)
    assert.ok(!JSON.stringify(answer.headers).includes(canary))
  }
  return [...statuses].toSorted((a, b) => a - b)
}
