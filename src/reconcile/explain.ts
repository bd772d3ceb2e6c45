import { renderPlan } from '../core/plan/render-plan.ts'
import { decide } from './decide.ts'
import { intentOf } from './intent.ts'
import { observe } from './observe/observe.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { PassContext } from './pass.ts'

/** What a pass would do now for a VM, and why, as text; undefined where there is no such VM. Changes nothing. */
export async function explain({ store, host }: PassContext, id: VmId): Promise<string | undefined> {
  const record = store.vms.get(id)
  if (record === undefined) return undefined
  const { generations, desired, observed, deleting } = record
  const intent = intentOf(record, store.vms.inputs(id))
  const world = await observe(host, record)
  const { fault } = observed
  const lines = [
    `vm          ${id}`,
    `desired     ${deleting ? 'deleted' : desired.power}, generation ${generations.desired}`,
    `observed    ${observed.state}, generation ${generations.observed}`,
    ...(fault === undefined ? [] : [`error       ${fault.step}: ${fault.message}`, retryLine(fault)]),
    '',
    renderPlan(decide(host, record, { world, intent })),
  ]
  return `${lines.join('\n')}\n`
}

const retryLine = (fault: { attempt: number; nextAttemptAtMs?: number }): string =>
  `attempt     ${fault.attempt}` +
  (fault.nextAttemptAtMs === undefined ? '' : `, next at ${new Date(fault.nextAttemptAtMs).toISOString()}`)
