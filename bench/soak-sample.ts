/** Things that the daemon holds at a moment. */
import { readdirSync, statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { CURL_TLS } from '../lab/inside/controller.ts'
import { mainPid, sh } from '../lab/inside/shell.ts'
import { valueIn } from '../test/metrics-text.ts'
import { memoryMib } from './process-memory.ts'

const DATABASE = '/var/lib/vmhostd/vmhostd.db'
const MIB = 1024 * 1024
/** Longer than `limits.savedDiscardMs` and `limits.metricsAgeMsMax`. */
const REST_MS = 3000

export type SoakSample = {
  /** Process id of the daemon. */
  readonly pid: string
  readonly memoryMib: number
  readonly descriptors: number
  readonly timers: number
  /** The database with its write-ahead log. */
  readonly databaseMib: number
}

/**
 * Takes a sample at rest: connections of the work before are closed, and what was discarded is gone. The daemon answers
 * with new metrics by then too.
 */
export async function sampleAtRest(): Promise<SoakSample> {
  await delay(REST_MS)
  const pid = await mainPid('vmhostd')
  const metrics = await sh(
    'curl',
    '--silent',
    '--fail',
    ...CURL_TLS.split(' '),
    'https://localhost:9000/metrics',
  )
  const timers = valueIn(metrics, 'vmhostd_timers')
  if (timers === undefined) throw new Error('the daemon does not count its timers')
  return {
    pid,
    memoryMib: memoryMib(pid),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    timers,
    databaseMib: (statSync(DATABASE).size + statSync(`${DATABASE}-wal`).size) / MIB,
  }
}
