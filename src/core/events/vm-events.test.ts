import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { vmEvents } from './vm-events.ts'
import type { MigrationId, NodeName } from '../migration/offer.ts'
import type { Generation, OperationId } from '../ids.ts'
import type { Fault, Observed, VmRecord } from '../vm/record.ts'

const packet = {
  protocol: 'tcp',
  source: '198.51.100.7',
  sourcePort: 50_412,
  destination: '192.0.2.10',
  destinationPort: 443,
}

/** Returns the events between two records, without what all of them have. */
function between(before: VmRecord | undefined, after: VmRecord | undefined): readonly object[] {
  return vmEvents(before, after).map(({ vmId, operationId, ...rest }) => {
    assert.deepEqual([vmId, operationId], ['web-1', 'op-1'])
    return rest
  })
}

/** Returns a record that shows this. */
const showing = (observed: Partial<Observed>, changes: Partial<VmRecord> = {}): VmRecord =>
  recordOf({ ...changes, observed: { state: 'running', sinceMs: 1, ...observed } })

const fault = (changes: Partial<Fault> = {}): Fault => ({
  code: 'network_failed',
  step: 'network.ensure-tap',
  message: 'making vmt600000: no memory',
  generation: 2 as Generation,
  sinceMs: 1,
  attempt: 1,
  nextAttemptAtMs: 2,
  ...changes,
})

test('a record that stays as it is has no event, and neither has one that only moves on', () => {
  const record = recordOf()
  assert.deepEqual(between(record, record), [])
  assert.deepEqual(between(showing({}), showing({ lastTrafficAtMs: 5, disk: { sizeMib: 64 } })), [])
  assert.deepEqual(between(undefined, undefined), [])
})

test('a record begins and ends with its state, and each change of state continues the one before', () => {
  const states = ['pending', 'starting', 'running'] as const
  const records = states.map((state) => showing({ state }))
  const history = [undefined, ...records, undefined]
  assert.deepEqual(
    history.slice(1).flatMap((after, at) => between(history[at], after)),
    [
      { kind: 'vm_created', to: 'pending' },
      { kind: 'vm_state', from: 'pending', to: 'starting' },
      { kind: 'vm_state', from: 'starting', to: 'running' },
      { kind: 'vm_deleted', from: 'running' },
    ],
  )
})

test('a request names what it changes, and a deletion', () => {
  const before = recordOf()
  const generations = { desired: 3 as Generation, observed: 1 as Generation }
  const { compute, ...rest } = before.desired
  const after = recordOf({
    generations,
    desired: { ...rest, power: 'stopped', compute: { ...compute, memoryMib: 512 }, instance: 2 },
    stops: { accepted: 3, carriedOut: 0 },
  })
  const request = { kind: 'vm_requested', generation: 3 }
  assert.deepEqual(between(before, after), [
    { ...request, power: 'stopped', changes: ['compute', 'instance', 'power'] },
  ])
  assert.deepEqual(between(before, recordOf({ generations, desired: { ...rest, compute } })), [
    { ...request, power: 'running', changes: [] },
  ])
  const earlier = recordOf({ operationId: 'op-0' as OperationId })
  assert.deepEqual(between(earlier, recordOf({ generations, deleting: true })), [
    { ...request, power: 'running', changes: [], deletes: true },
  ])
  assert.deepEqual(between(before, recordOf({ generations, deleting: true })), [
    { ...request, power: 'running', changes: [], deletes: true, due: true },
  ])
  assert.deepEqual(between(before, recordOf({ generations, stops: { accepted: 3, carriedOut: 0 } })), [
    { ...request, power: 'running', changes: [], stops: true },
  ])
})

test('desired state is reached once', () => {
  const reached = (observed: number) =>
    recordOf({ generations: { desired: 2 as Generation, observed: observed as Generation } })
  assert.deepEqual(between(reached(1), reached(2)), [{ kind: 'vm_reached', generation: 2 }])
  assert.deepEqual(between(reached(2), reached(2)), [])
})

test('an end by itself comes before the state that follows, and the same end comes once', () => {
  const lastExit = {
    atMs: 5,
    cause: 'panicked',
    because: 'the guest panicked',
    ranMs: 42_000,
    exitStatus: 0,
    consoleLines: ['Kernel panic'],
  } as const
  const ended = showing({ state: 'starting', lastExit })
  assert.deepEqual(between(showing({}), ended), [
    { kind: 'vm_exit', cause: 'panicked', detail: 'the guest panicked', ranMs: 42_000, exitStatus: 0 },
    { kind: 'vm_state', from: 'running', to: 'starting' },
  ])
  assert.deepEqual(between(ended, ended), [])
  const again = showing({ state: 'starting', lastExit: { ...lastExit, atMs: 6 } })
  assert.equal(between(ended, again).length, 1)
})

test('a stop says how it came', () => {
  const lastStop = { atMs: 1, kind: 'graceful', generation: 2 } as const
  assert.deepEqual(between(showing({}), showing({ lastStop })), [
    { kind: 'vm_stop', how: 'graceful', generation: 2 },
  ])
})

test('a wake says by which packet it came, when it begins and when it ends', () => {
  const asleep = showing({ state: 'sleeping' })
  const wake = { reason: 'traffic', atMs: 4, savedAtMs: 2, packet } as const
  const waking = showing({ state: 'sleeping' }, { wake })
  assert.deepEqual(between(asleep, waking), [{ kind: 'vm_waking', reason: 'traffic', packet }])
  const restoring = showing({ state: 'sleeping' }, { wake: { ...wake, restores: true } })
  assert.deepEqual(between(waking, restoring), [])
  const asked = showing({ state: 'sleeping' }, { wake: { reason: 'power', atMs: 4 } })
  assert.deepEqual(between(asleep, asked), [], 'a wish makes no wake')
  const figures = { durationMs: 180, heldPackets: 1, droppedPackets: 0 }
  const woken = showing({ state: 'running', lastWake: { reason: 'traffic', atMs: 4, packet, ...figures } })
  assert.deepEqual(between(restoring, woken), [
    { kind: 'vm_state', from: 'sleeping', to: 'running' },
    { kind: 'vm_woken', reason: 'traffic', packet, ...figures },
  ])
})

test('a fault begins and ends once, whatever its attempts and words', () => {
  const facts = { code: 'network_failed', step: 'network.ensure-tap' }
  const failed = showing({ state: 'failed', fault: fault() })
  assert.deepEqual(between(showing({}), failed), [
    { kind: 'vm_state', from: 'running', to: 'failed' },
    { kind: 'vm_fault', ...facts, detail: 'making vmt600000: no memory' },
  ])
  const again = showing({ state: 'failed', fault: fault({ attempt: 2, message: 'other words' }) })
  assert.deepEqual(between(failed, again), [])
  assert.deepEqual(between(again, showing({})), [
    { kind: 'vm_fault_ended', ...facts },
    { kind: 'vm_state', from: 'failed', to: 'running' },
  ])
  const other = showing({ state: 'failed', fault: fault({ step: 'unit.start' }) })
  assert.deepEqual(between(failed, other).length, 2)
  assert.deepEqual(between(failed, undefined), [
    { kind: 'vm_fault_ended', ...facts },
    { kind: 'vm_deleted', from: 'failed' },
  ])
})

test('what an inspection found is the same fault when a step fails for it', () => {
  const partialFaults = [{ code: 'network_failed', step: 'network.ensure-tap', message: 'seen' }] as const
  const seen = showing({ partialFaults })
  assert.equal(between(showing({}), seen).length, 1)
  assert.deepEqual(between(seen, showing({ fault: fault() })), [])
  assert.deepEqual(between(seen, showing({ partialFaults, fault: fault() })), [])
})

test('each stage of a migration is one event, at both of its hosts', () => {
  const departure = {
    id: 'move-7' as MigrationId,
    node: 'node-2' as NodeName,
    mode: 'live',
    stage: 'offered',
    sinceMs: 1,
  } as const
  const offered = recordOf({ departure })
  const facts = { kind: 'vm_migration', side: 'source', migrationId: 'move-7', node: 'node-2' }
  assert.deepEqual(between(recordOf(), offered), [{ ...facts, to: 'offered' }])
  const withdrawn = recordOf({ departure: { ...departure, stage: 'withdrawn', because: 'expired' } })
  assert.deepEqual(between(offered, withdrawn), [
    { ...facts, from: 'offered', to: 'withdrawn', because: 'expired' },
  ])
  const next = recordOf({ departure: { ...departure, id: 'move-8' as MigrationId } })
  assert.deepEqual(between(withdrawn, next), [{ ...facts, migrationId: 'move-8', to: 'offered' }])
})
