import { once } from 'node:events'
import { Agent, request } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { mainPid } from '../lab/inside/shell.ts'
import { measurement, median, progress } from './measurement.ts'
import { fire } from './open-loop.ts'
import { cpuPercent } from './process-cpu.ts'
import type { IncomingMessage } from 'node:http'
import type { AgentOptions } from 'node:https'
import type { Measurement } from './measurement.ts'

const ROUNDS = 3
/** Shorter than the polls wait, so that none ends during the measurement. */
const CPU_SECONDS = 15
/** Time for the handshakes of the polls to finish, and for their garbage to be collected. */
const SETTLE_SECONDS = 3
const WAIT_SECONDS = 60

export type Polls = {
  readonly agent: Agent
  readonly identity: AgentOptions
  readonly port: number
  /** The VMs, one poll each. */
  readonly ids: readonly string[]
}

/** Measures the daemon's use of a core while nothing changes, with the polls open and without, in turn. */
export async function longPolls(polls: Polls): Promise<Measurement> {
  const pid = await mainPid('vmhostd')
  const idle: number[] = []
  const polling: number[] = []
  for (let round = 1; round <= ROUNDS; round += 1) {
    await delay(SETTLE_SECONDS * 1000)
    idle.push(await cpuPercent(pid, CPU_SECONDS))
    const close = await openPolls(polls)
    await delay(SETTLE_SECONDS * 1000)
    polling.push(await cpuPercent(pid, CPU_SECONDS))
    close()
    progress(`long polls: round ${round} of ${ROUNDS}`)
  }
  return measurement({
    bench: 'api',
    metric: `long_polls_${polls.ids.length}_cpu_percent`,
    unit: '%',
    ours: median(polling),
    reference: median(idle),
    reference_name: 'the same daemon without them',
    runs: ROUNDS,
  })
}

/**
 * Resolves when the daemon has all polls, with a function that closes them. The function throws if one was answered.
 */
async function openPolls({ agent, identity, port, ids }: Polls): Promise<() => void> {
  const waiting = new Agent({ ...identity, keepAlive: true })
  const answered: string[] = []
  const open = await Promise.all(
    ids.map(async (id) => {
      const place = { host: 'localhost', port, path: `/v1/vms/${id}` }
      const headers = { 'if-none-match': await etagOf({ ...place, agent }), prefer: `wait=${WAIT_SECONDS}` }
      const poll = request({ ...place, headers, agent: waiting }, ({ statusCode }) =>
        answered.push(`${id}: ${statusCode}`),
      )
      poll.on('error', (error) => answered.push(`${id}: ${error.message}`))
      poll.end()
      await once(poll, 'finish')
      return poll
    }),
  )
  // The daemon reads its sockets in turn: this answer comes after it has read all polls.
  await fire(agent, { port, method: 'GET', path: `/v1/vms/${ids[0]}`, expect: 200 })
  return () => {
    if (answered.length > 0) throw new Error(`${answered.length} polls ended early; ${answered[0]}`)
    for (const poll of open)
      poll
        .removeAllListeners('error')
        .on('error', () => {})
        .destroy()
    waiting.destroy()
  }
}

async function etagOf(place: { host: string; port: number; path: string; agent: Agent }): Promise<string> {
  const reading = request(place)
  reading.end()
  const [response] = (await once(reading, 'response')) as [IncomingMessage]
  response.resume()
  await once(response, 'end')
  return String(response.headers.etag)
}
