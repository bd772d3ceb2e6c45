import { drainFact } from '../core/maintenance/drain.ts'
import { plan } from '../core/plan/plan.ts'
import { renderPlan } from '../core/plan/step.ts'
import { withGrace } from '../core/status/grace.ts'
import { given } from '../lib/given.ts'
import { scrub } from '../log/scrub.ts'
import { factsOf } from './facts.ts'
import { intentOf } from './intent.ts'
import { observe } from './observe/observe.ts'
import type { VmId } from '../core/ids.ts'
import type { Plan } from '../core/plan/step.ts'
import type { VmInputs } from '../core/vm/create.ts'
import type { VmRecord } from '../core/vm/record.ts'
import type { WorkerContext } from './context.ts'

export type ExplainContext = Pick<
  WorkerContext,
  'store' | 'host' | 'silences' | 'memory' | 'graces' | 'hostEnd'
>

/**
 * Returns what a pass would do now for this record, after a new look at the host.
 * Changes nothing on the host or on record.
 */
export async function planFor(
  { store, host, silences, memory, graces, hostEnd }: ExplainContext,
  record: VmRecord,
  inputs: VmInputs,
): Promise<Plan> {
  const intent = intentOf(host, record, inputs)
  const world = await observe(host, record)
  const silentMs = silences.note(record.id, world, host.clock.monotonicMs())
  const nowMs = host.clock.now()
  const { record: graced } = withGrace(graces.timed(record, nowMs), world, { nowMs, bootId: host.bootId })
  // Plans as if no other guest were being saved or restored.
  const drain = drainFact(store.maintenance.get(), graced)
  const own = {
    maySave: true,
    mayRestore: true,
    silentMs,
    ...hostEnd.factsFor(record.id),
    ...given({ drain }),
  }
  const shared = { memory: () => memory.standing(record), memoryIsShort: memory.isShort }
  return plan(graced, world, factsOf(host, graced, { intent, own: { ...own, ...shared } }))
}

/** Returns the plan of a VM and its reasons as text; undefined if there is no such VM. */
export async function explain(own: ExplainContext, id: VmId): Promise<string | undefined> {
  const { store } = own
  const record = store.vms.get(id)
  if (record === undefined) return undefined
  const { generations, desired, observed, deleting, wake, operationId } = record
  const { fault, partialFaults = [], savedState } = observed
  const lines = [
    `vm          ${id}`,
    `desired     ${deleting ? 'deleted' : desired.power}, generation ${generations.desired}`,
    `operation   ${operationId}`,
    `observed    ${observed.state}, generation ${generations.observed}, since ${time(observed.sinceMs)}`,
    ...(observed.waitingFor === undefined ? [] : [`waiting for ${observed.waitingFor}`]),
    ...(savedState === undefined
      ? []
      : [`saved       ${time(savedState.savedAtMs)}, ${savedState.sizeMib} MiB`]),
    ...(wake === undefined ? [] : [`wanted      for ${wake.reason}, since ${time(wake.atMs)}`]),
    ...(fault === undefined ? [] : [`error       ${fault.step}: ${fault.message}`, retryLine(fault)]),
    ...partialFaults.map(({ step, message }) => `found       ${step}: ${message}`),
  ]
  const planned = renderPlan(await planFor(own, record, store.vms.inputs(id)))
  return `${[...lines, '', ...planned.split('\n')].map(scrub).join('\n')}\n`
}

const retryLine = (fault: { attempt: number; nextAttemptAtMs: number }): string =>
  `attempt     ${fault.attempt}, next at ${time(fault.nextAttemptAtMs)}`

const time = (ms: number): string => new Date(ms).toISOString()
