/** api: mutations and reads at a steady rate with 1,000 VMs on record, and what 500 long polls cost the daemon. */
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent } from 'node:https'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { closeController, controllerIdentity, mutate, remove, settled } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { longPolls } from './long-polls.ts'
import { allSettled, fillStore, removeAll } from './many-vms.ts'
import { measurement, percentile, progress } from './measurement.ts'
import { openLoop } from './open-loop.ts'
import { startBareServer } from './start-bare-server.ts'
import type { Measurement } from './measurement.ts'
import type { Shot } from './open-loop.ts'

const PORT = 9000
const VMS = 1000
const ROUNDS = 3
const ROUND_SECONDS = 5
const WARM_SECONDS = 2
const MUTATIONS_PER_SECOND = 200
/** Memory of each VM at first, MiB. Each mutation takes one away, because the host has no room for more. */
const MEMORY_MIB = 16 * 1024
const READS_PER_SECOND = 1000
const LISTS_PER_SECOND = 20
const LIST_ITEMS = 100
const CONNECTIONS = 32
const POLLS = 500

const identity = controllerIdentity()
/** A pool of kept connections, as a controller has it. A request that finds none free waits, and its wait counts. */
const agent = new Agent({ ...identity, keepAlive: true, maxSockets: CONNECTIONS })
const bare = await startBareServer()
// Measure this before there are many VMs: the daemon looks at each VM every minute, which would hide the cost of polls.
const polls = await pollsOnOneVm()
const compute = { cpu_millicores: 1000, memory_mib: MEMORY_MIB, sleep_after_idle_seconds: 0 }
const ids = await fillStore('bench-api', VMS, () => ({ ...guestRequest({ power: 'stopped' }), compute }))
progress(`${VMS} VMs on record`)

const at = (index: number): string => `/v1/vms/${ids[index % ids.length]}`
let changes = 0
const mutation =
  (port: number) =>
  (index: number): Shot => {
    // Each request is a real change that needs no work on the host.
    changes += 1
    const body = { ...compute, memory_mib: MEMORY_MIB - changes }
    return { port, method: 'PUT', path: `${at(index)}/compute`, body, expect: 202 }
  }
const read =
  (port: number) =>
  (index: number): Shot => ({ port, method: 'GET', path: at(index), expect: 200 })
const page = (port: number) => (): Shot => ({
  port,
  method: 'GET',
  path: `/v1/vms?limit=${LIST_ITEMS}`,
  expect: 200,
})

const rows: Measurement[] = []
const BARE = 'a bare fastify route over the same mTLS'
const mutations = await side('mutations', MUTATIONS_PER_SECOND, mutation)
const writes = await writesAlone()
const reads = await side('reads', READS_PER_SECOND, read)
const lists = await side('list pages', LISTS_PER_SECOND, page)
const latency = (metric: string, ours: readonly number[], references: object, limit?: number): void => {
  for (const [name, samples] of Object.entries(references) as [string, readonly number[]][]) {
    const fraction = metric.includes('p99') ? 0.99 : 0.5
    const figures = { ours: percentile(ours, fraction), reference: percentile(samples, fraction) }
    const common = { bench: 'api', metric, unit: 'ms', reference_name: name, runs: ours.length }
    rows.push(measurement({ ...common, ...figures, ...(limit === undefined ? {} : { limit }) }))
  }
}
const besideMutations = { [BARE]: mutations.bare, 'a durable SQLite write alone': writes }
latency('mutation_p50_ms', mutations.ours, besideMutations)
latency('mutation_p99_ms', mutations.ours, besideMutations, 15)
latency('read_p50_ms', reads.ours, { [BARE]: reads.bare })
latency('read_p99_ms', reads.ours, { [BARE]: reads.bare }, 5)
latency('list_100_p99_ms', lists.ours, { [BARE]: lists.bare })
rows.push(polls)
agent.destroy()
bare.end()
await removeAll(ids)
closeController()
console.log(JSON.stringify(rows))

async function pollsOnOneVm(): Promise<Measurement> {
  const id = 'bench-polled'
  await mutate('PUT', `/v1/vms/${id}`, guestRequest({ power: 'stopped' }))
  await settled(id, 'stopped')
  const polled = Array.from({ length: POLLS }, () => id)
  const measured = await longPolls({ agent, identity, port: PORT, ids: polled })
  await remove(id)
  return measured
}

/** Measures ours and the bare route in turn, at the same rate. */
async function side(
  name: string,
  perSecond: number,
  shotAt: (port: number) => (index: number) => Shot,
): Promise<{ ours: number[]; bare: number[] }> {
  const ours: number[] = []
  const reference: number[] = []
  for (const port of [PORT, bare.port])
    await openLoop({ agent, perSecond, seconds: WARM_SECONDS, shot: shotAt(port) })
  for (let round = 1; round <= ROUNDS; round += 1) {
    await allSettled(VMS)
    ours.push(...(await openLoop({ agent, perSecond, seconds: ROUND_SECONDS, shot: shotAt(PORT) })))
    await allSettled(VMS)
    reference.push(...(await openLoop({ agent, perSecond, seconds: ROUND_SECONDS, shot: shotAt(bare.port) })))
    progress(`${name}: round ${round} of ${ROUNDS}`)
  }
  return { ours, bare: reference }
}

/** Measures the write that a mutation waits for, at the same rate and on the disk of the daemon's database. */
async function writesAlone(): Promise<number[]> {
  const directory = mkdtempSync('/var/lib/vmhostd/bench-')
  const db = new DatabaseSync(`${directory}/bench.db`)
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  db.exec('CREATE TABLE rows (id TEXT PRIMARY KEY, value TEXT) STRICT')
  const write = db.prepare(
    'INSERT INTO rows (id, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2',
  )
  const samples: number[] = []
  for (let run = 0; run < MUTATIONS_PER_SECOND * ROUND_SECONDS; run += 1) {
    await delay(1000 / MUTATIONS_PER_SECOND)
    const startedAt = performance.now()
    write.run(String(ids[run % ids.length]), `${run}`.padEnd(1000))
    samples.push(performance.now() - startedAt)
  }
  db.close()
  rmSync(directory, { recursive: true })
  return samples
}
