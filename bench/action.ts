/** action: from the accepted mutation to the first host action, by the daemon's log, beside a bare round trip. */
import { execFileSync } from 'node:child_process'
import { call, closeController, mutate, remove, setPower, settled } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'
import { measurement, median, progress } from './measurement.ts'

const VM = 'bench-action'
const RUNS = 20
const since = new Date().toISOString().replace('T', ' ').replace(/\..*/, ' UTC')

await mutate('PUT', `/v1/vms/${VM}`, guestRequest({ power: 'stopped' }))
await settled(VM, 'stopped')
const operations: string[] = []
const roundTrips: number[] = []
for (let run = 1; run <= RUNS; run += 1) {
  operations.push(await change('running'))
  operations.push(await change('stopped'))
  const startedAt = performance.now()
  await call('GET', '/healthz')
  roundTrips.push(performance.now() - startedAt)
  if (run % 5 === 0) progress(`${run} of ${RUNS}`)
}
await remove(VM)
closeController()
const log = execFileSync('journalctl', ['--unit=vmhostd', '--output=cat', '--since', since], {
  encoding: 'utf8',
  maxBuffer: 2 ** 28,
})
const firstActions = new Map<string, number>()
for (const line of log.split('\n').filter((text) => text.includes('first_action_ms'))) {
  const { operation_id, first_action_ms } = JSON.parse(line) as {
    operation_id: string
    first_action_ms: number
  }
  firstActions.set(operation_id, first_action_ms)
}
const ours = operations.map((operation) => firstActions.get(operation)).filter((ms) => ms !== undefined)
if (ours.length < operations.length)
  throw new Error(`${operations.length - ours.length} operations without an action`)
console.log(
  JSON.stringify([
    measurement({
      bench: 'action',
      metric: 'first_action_ms',
      unit: 'ms',
      ours: median(ours),
      reference: median(roundTrips),
      reference_name: 'GET /healthz over the same connection',
      runs: ours.length,
    }),
  ]),
)

async function change(state: string): Promise<string> {
  const { operation_id } = await setPower(VM, state)
  await settled(VM, state)
  if (operation_id === undefined) throw new Error('a mutation without an operation id')
  return operation_id
}
