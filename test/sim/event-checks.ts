import assert from 'node:assert/strict'
import { limits } from '../../src/config/limits.ts'
import { vmOfEvent } from '../../src/core/events/event.ts'
import type { EventBody } from '../../src/core/events/event.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { Store } from '../../src/store/store.ts'

/** A VM as its events say. Undefined state: there is no such VM. */
type Known = { state: string | undefined; generation: number; readonly faults: Set<string> }

/**
 * Checks that the events on record explain every VM: its states, its faults and its generations, from its creation on.
 */
export function checkEvents(store: Store): void {
  const events = store.events.list({ after: 0, limit: limits.eventsMax + limits.eventsPruneEvery })
  if (store.events.keptAfter > 0) return
  const known = new Map<VmId, Known>()
  for (const { sequence, body } of events) {
    const vmId = vmOfEvent(body)
    if (vmId === undefined) continue
    const of = known.get(vmId) ?? { state: undefined, generation: 0, faults: new Set() }
    known.set(vmId, of)
    follow(of, body, `event ${sequence}: ${JSON.stringify(body)}`)
  }
  for (const [id, of] of known) compare(of, store.vms.get(id), id)
  for (const id of store.vms.ids()) assert.ok(known.has(id), `${id} has no event`)
}

function follow(of: Known, body: EventBody, what: string): void {
  const { kind } = body
  if (kind === 'vm_created') {
    assert.equal(of.state, undefined, what)
    of.state = body.to
    of.generation = 1
  } else if (kind === 'vm_state') {
    assert.equal(of.state, body.from, what)
    of.state = body.to
  } else if (kind === 'vm_deleted') {
    assert.equal(of.state, body.from, what)
    assert.deepEqual([...of.faults], [], what)
    of.state = undefined
  } else if (kind === 'vm_requested') {
    assert.equal(body.generation, of.generation + 1, what)
    of.generation = body.generation
  } else if (kind === 'vm_reached') assert.equal(body.generation, of.generation, what)
  else if (kind === 'vm_fault') {
    assert.ok(!of.faults.has(faultName(body)), what)
    of.faults.add(faultName(body))
  } else if (kind === 'vm_fault_ended') assert.ok(of.faults.delete(faultName(body)), what)
}

function compare({ state, generation, faults }: Known, record: VmRecord | undefined, id: VmId): void {
  assert.equal(state, record?.observed.state, id)
  if (record === undefined) return
  const { fault, partialFaults = [] } = record.observed
  const shown = fault === undefined ? partialFaults : [fault, ...partialFaults]
  assert.deepEqual([...faults].toSorted(), [...new Set(shown.map(faultName))].toSorted(), id)
  assert.equal(generation, record.generations.desired, id)
}

const faultName = ({ step, code }: { readonly step: string; readonly code: string }): string =>
  `${step} ${code}`
