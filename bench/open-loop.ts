import { request } from 'node:https'
import type { Agent } from 'node:https'

/** One request of a load; `expect` is the status that counts as an answer. */
export type Shot = {
  readonly port: number
  readonly method: string
  readonly path: string
  readonly body?: unknown
  readonly expect: number
}

export type Load = {
  readonly agent: Agent
  readonly perSecond: number
  readonly seconds: number
  readonly shot: (index: number) => Shot
}

/**
 * Sends at a steady rate, however long the answers take, and returns each answer's latency in milliseconds. It counts
 * from the moment when a request was due, not from when it could be sent. So the latency of a stalled server includes
 * all requests that queue behind the stall.
 */
export async function openLoop({ agent, perSecond, seconds, shot }: Load): Promise<number[]> {
  const count = perSecond * seconds
  const startedAt = performance.now()
  const dueAt = (index: number): number => startedAt + (index * 1000) / perSecond
  const { promise, resolve, reject } = Promise.withResolvers<number[]>()
  const latencies: number[] = []
  let sent = 0
  const answered = async (one: Shot, due: number): Promise<void> => {
    try {
      await fire(agent, one)
      if (latencies.push(performance.now() - due) === count) resolve(latencies)
    } catch (error) {
      reject(error)
    }
  }
  const tick = (): void => {
    while (sent < count && dueAt(sent) <= performance.now()) {
      const due = dueAt(sent)
      void answered(shot(sent), due)
      sent += 1
    }
    if (sent < count) setTimeout(tick, Math.max(0, dueAt(sent) - performance.now()))
  }
  tick()
  return promise
}

/** Sends one request and reads its whole answer. Rejects if the status is another, or no answer comes in time. */
export async function fire(agent: Agent, { port, method, path, body, expect }: Shot): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const text = body === undefined ? undefined : JSON.stringify(body)
  const headers =
    text === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  const options = { host: 'localhost', port, method, path, agent, headers, timeout: 30_000 }
  const sending = request(options, (response) => {
    response.on('error', reject)
    response.on('end', () => {
      if (response.statusCode === expect) resolve()
      else reject(new Error(`${method} ${path}: ${response.statusCode}`))
    })
    response.resume()
  })
  sending.on('error', reject)
  sending.on('timeout', () => sending.destroy(new Error(`${method} ${path}: no answer`)))
  sending.end(text)
  return promise
}
