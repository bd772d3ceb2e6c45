import { given } from '../../lib/given.ts'
import { isSame } from '../../lib/is-same.ts'
import { hasBegun } from '../vm/record.ts'
import type { Desired } from '../desired.ts'
import type { VmRecord } from '../vm/record.ts'
import type { FaultFacts, VmEvent } from './event.ts'

/** The members of a record that events are about. */
export type Compared = Pick<
  VmRecord,
  | 'id'
  | 'operationId'
  | 'desired'
  | 'deleting'
  | 'generations'
  | 'stops'
  | 'observed'
  | 'wake'
  | 'departure'
  | 'arrival'
>

type Facts = VmEvent extends infer E ? (E extends VmEvent ? Omit<E, 'vmId' | 'operationId'> : never) : never

/**
 * Returns what happened between two states of a record, in the order in which it explains itself. `before` is absent
 * for a new record, and `after` for one that is gone.
 */
export function vmEvents(before: Compared | undefined, after: Compared | undefined): readonly VmEvent[] {
  const record = after ?? before
  if (record === undefined) return []
  const facts: readonly Facts[] = [
    ...requestFacts(before, after),
    ...migrationFacts(before, after),
    ...endFacts(before, after),
    ...wakingFacts(before, after),
    ...faultsEnded(before, after),
    ...stateFacts(before, after),
    ...wokenFacts(before, after),
    ...faultsBegun(before, after),
    ...reachedFacts(before, after),
  ]
  return facts.map((fact) => ({ ...fact, vmId: record.id, operationId: record.operationId }))
}

type Compare = (before: Compared | undefined, after: Compared | undefined) => readonly Facts[]

const requestFacts: Compare = (before, after) => {
  if (before === undefined || after === undefined) return []
  const { desired: generation } = after.generations
  if (generation === before.generations.desired) return []
  const changes = changedMembers(before.desired, after.desired)
  const { power } = after.desired
  const deletes = after.deleting && !before.deleting ? deletionFacts(before, after) : {}
  const isStop = after.stops.accepted === generation && power !== 'stopped'
  const stops = isStop ? { stops: true as const } : {}
  return [{ kind: 'vm_requested', generation, power, changes, ...deletes, ...stops }]
}

/** Returns what is special about a deletion. One that no request asked for stays in the operation of before. */
const deletionFacts = (
  before: Compared,
  after: Compared,
): { readonly deletes: true; readonly due?: true } => ({
  deletes: true,
  ...(after.operationId === before.operationId ? { due: true } : {}),
})

function changedMembers(before: Desired, after: Desired): readonly string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]) as Set<keyof Desired>
  return [...names].filter((name) => !isSame(before[name], after[name])).toSorted()
}

const migrationFacts: Compare = (before, after) => [
  ...departureFacts(before, after),
  ...arrivalFacts(before, after),
]

const departureFacts: Compare = (before, after) => {
  const departure = after?.departure
  if (departure === undefined) return []
  const { id: migrationId, stage, node, because } = departure
  const from = before?.departure?.id === migrationId ? before.departure.stage : undefined
  if (from === stage) return []
  return [{ kind: 'vm_migration', side: 'source', migrationId, to: stage, node, ...given({ from, because }) }]
}

const arrivalFacts: Compare = (before, after) => {
  const arrival = after?.arrival
  if (arrival === undefined) return []
  const { migrationId, stage, because } = arrival
  const from = before?.arrival?.id === arrival.id ? before.arrival.stage : undefined
  if (from === stage) return []
  return [{ kind: 'vm_migration', side: 'destination', migrationId, to: stage, ...given({ from, because }) }]
}

const endFacts: Compare = (before, after) => {
  const { lastExit, lastStop } = after?.observed ?? {}
  const facts: Facts[] = []
  if (lastExit !== undefined && !isSame(before?.observed.lastExit, lastExit)) {
    const { cause, because: detail, ranMs, exitStatus } = lastExit
    facts.push({ kind: 'vm_exit', cause, detail, ranMs, ...given({ exitStatus }) })
  }
  if (lastStop !== undefined && !isSame(before?.observed.lastStop, lastStop)) {
    const { kind: how, generation } = lastStop
    facts.push({ kind: 'vm_stop', how, ...given({ generation }) })
  }
  return facts
}

const wakingFacts: Compare = (before, after) => {
  const wake = after?.wake
  if (!hasBegun(wake) || hasBegun(before?.wake)) return []
  return [{ kind: 'vm_waking', reason: wake.reason, ...given({ packet: wake.packet }) }]
}

const wokenFacts: Compare = (before, after) => {
  const last = after?.observed.lastWake
  if (last === undefined || isSame(before?.observed.lastWake, last)) return []
  const { reason, packet, durationMs, heldPackets, droppedPackets } = last
  return [{ kind: 'vm_woken', reason, durationMs, heldPackets, droppedPackets, ...given({ packet }) }]
}

const stateFacts: Compare = (before, after) => {
  const [from, to] = [before?.observed.state, after?.observed.state]
  if (from === undefined) return to === undefined ? [] : [{ kind: 'vm_created', to }]
  if (to === undefined) return [{ kind: 'vm_deleted', from }]
  return from === to ? [] : [{ kind: 'vm_state', from, to }]
}

/** Returns the faults that a record shows, each once. Another attempt, or another message, is the same fault. */
function faultsOf(record: Compared | undefined): ReadonlyMap<string, FaultFacts> {
  const { fault, partialFaults = [] } = record?.observed ?? {}
  const shown = fault === undefined ? partialFaults : [fault, ...partialFaults]
  const faults = new Map<string, FaultFacts>()
  for (const { code, step, message } of shown) {
    const name = `${step} ${code}`
    if (!faults.has(name)) faults.set(name, { code, step, detail: message })
  }
  return faults
}

const faultsBegun: Compare = (before, after) => {
  const known = faultsOf(before)
  return [...faultsOf(after)].flatMap(([name, fault]) =>
    known.has(name) ? [] : [{ kind: 'vm_fault' as const, ...fault }],
  )
}

const faultsEnded: Compare = (before, after) => {
  const left = faultsOf(after)
  return [...faultsOf(before)].flatMap(([name, { code, step }]) =>
    left.has(name) ? [] : [{ kind: 'vm_fault_ended' as const, code, step }],
  )
}

const reachedFacts: Compare = (before, after) => {
  const { observed: generation, desired } = after?.generations ?? {}
  if (generation === undefined || generation !== desired) return []
  return before?.generations.observed === generation ? [] : [{ kind: 'vm_reached', generation }]
}
