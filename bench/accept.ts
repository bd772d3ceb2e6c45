/** accept: a mutation over a kept mTLS connection (validation, durable write, reply), beside the same write alone. */
import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { call, closeController, mutate, remove, settled } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { measurement, percentile, progress } from './measurement.ts'

const VM = 'bench-accept'
const RUNS = 400
const RUNS_WARM = 50
/** On the file system of the daemon's own database, so that both flush to the same disk. */
const directory = mkdtempSync('/var/lib/vmhostd/bench-')
const db = new DatabaseSync(`${directory}/bench.db`)
db.exec(
  'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE rows (id TEXT PRIMARY KEY, value TEXT) STRICT',
)
const write = db.prepare('INSERT INTO rows (id, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2')

const request = guestRequest({ power: 'stopped' })
const row = JSON.stringify(request)
await mutate('PUT', `/v1/vms/${VM}`, request)
await settled(VM, 'stopped')
const ours: number[] = []
const alone: number[] = []
for (let run = 0; run < RUNS + RUNS_WARM; run += 1) {
  const id = `${VM}-${run}`
  const mutation = await timed(() => mutate('PUT', `/v1/vms/${id}`, request))
  const single = await timed(async () => void write.run(VM, `${row}${run}`))
  await settled(id, 'stopped')
  await call('DELETE', `/v1/vms/${id}`)
  if (run < RUNS_WARM) continue
  ours.push(mutation)
  alone.push(single)
  if (run % 100 === 0) progress(`${run} of ${RUNS + RUNS_WARM}`)
}
await remove(VM)
closeController()
db.close()
rmSync(directory, { recursive: true })
const common = { bench: 'accept', unit: 'ms', reference_name: 'the same durable write alone', runs: RUNS }
const figure = (metric: string, fraction: number) =>
  measurement({ ...common, metric, ours: percentile(ours, fraction), reference: percentile(alone, fraction) })
console.log(JSON.stringify([figure('p50_ms', 0.5), figure('p99_ms', 0.99)]))

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}
