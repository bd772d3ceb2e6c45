import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { afterEvent } from '../../core/migration/departure.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import { commandStage } from '../../../test/command-stage.ts'
import { setMaintenance } from '../maintenance/set-maintenance.ts'
import { startSnapshot } from '../snapshots/snapshots.ts'
import { deleteVm } from '../vm/delete-vm.ts'
import { setCompute, setDisk, setExit, setNetwork, setSeed } from '../vm/reshape.ts'
import { setMetadata } from '../vm/set-metadata.ts'
import { rebootVm, setPower } from '../vm/set-power.ts'
import { keepAwake } from '../vm/wake-vm.ts'
import { offerVm, withdrawOffer } from './offer-vm.ts'
import type { TestContext } from 'node:test'
import type { ArrivalId, DepartureEvent } from '../../core/migration/departure.ts'
import type { MigrationId, NodeName, Offer } from '../../core/migration/offer.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'
import type { CommandContext } from '../context.ts'

const arrival = 'a' as ArrivalId
const COPY: DepartureEvent = { kind: 'copy', arrival }
const HAND_OVER: DepartureEvent = { kind: 'hand_over', arrival, lived: 'running' }
const RELEASED: readonly DepartureEvent[] = [
  COPY,
  HAND_OVER,
  { kind: 'guest_saved', lastRound: 1 },
  { kind: 'release', arrival, lastRound: 1 },
]

function stage(t: TestContext) {
  const base = commandStage(t)
  const { store, id, context, create, accepted } = base
  accepted(create())
  base.pokes.length = 0
  const offer = (changes: Partial<Offer> = {}): Offer => ({
    id: 'move-7' as MigrationId,
    node: 'node-2' as NodeName,
    mode: 'live',
    expiresAtMs: context.now() + 60_000,
    ...changes,
  })
  return {
    ...base,
    offer,
    offers: (changes: Partial<Offer> = {}) => offerVm(context, id, offer(changes)),
    record: () => store.vms.get(id) ?? assert.fail('the VM is gone'),
    /** Moves the departure on, as a destination does. */
    happens: (...events: readonly DepartureEvent[]) => {
      for (const event of events) {
        const departure = store.vms.get(id)?.departure ?? assert.fail('nothing is offered')
        const after = afterEvent(departure, event, 1)
        assert.ok(after.ok, after.ok ? '' : after.error)
        store.departures.set(id, after.value, 1)
      }
    },
  }
}

test('an offer raises a generation, and the same offer again does not', (t) => {
  const { offers, accepted, pokes, record } = stage(t)
  assert.equal(accepted(offers()).record.generations.desired, 2)
  assert.equal(accepted(offers()).changed, false)
  assert.deepEqual(pokes, ['web-1: offered to node-2'])
  assert.deepEqual(record().departure, {
    id: 'move-7',
    node: 'node-2',
    mode: 'live',
    stage: 'offered',
    sinceMs: 1000,
  })
})

test('a VM that moves takes no request to stay awake, because its destination would not know of it', (t) => {
  const { context, id, offers, accepted, refusal } = stage(t)
  accepted(offers())
  assert.equal(refusal(keepAwake(context, id, 61_000)).code, 'vm_migrating')
})

test('another expiry moves the deadline of an offer, and nothing else', (t) => {
  const { offers, accepted, happens, record } = stage(t)
  accepted(offers())
  happens(COPY)
  assert.equal(accepted(offers({ expiresAtMs: 100_000 })).changed, true)
  assert.deepEqual([record().departure?.stage, record().desired.migration?.expiresAtMs], ['copying', 100_000])
})

test('an offer expires within a bound from now', (t) => {
  const { offers, refusal, context } = stage(t)
  for (const expiresAtMs of [context.now(), context.now() + limits.offerMsMax + 1]) {
    const { code, errors } = refusal(offers({ expiresAtMs }))
    assert.deepEqual([code, errors?.[0]?.pointer], ['invalid_request', '/expires_at'])
  }
})

test('while an offer is not decided, no other node, migration or change is accepted', (t) => {
  const { context, id, offers, accepted, refusal } = stage(t)
  accepted(offers())
  assert.equal(refusal(offers({ node: 'node-3' as NodeName })).code, 'vm_migrating')
  assert.equal(refusal(offers({ id: 'move-8' as MigrationId })).code, 'vm_migrating')
  const paused = refusal(setPower(context, id, 'paused'))
  assert.equal(paused.code, 'vm_migrating')
  assert.match(paused.text, /withdraw it with DELETE \/v1\/vms\/web-1\/migration/)
  assert.equal(accepted(setPower(context, id, 'running')).changed, false)
  assert.equal(refusal(setMetadata(context, id, { protected: true })).code, 'vm_migrating')
  assert.equal(accepted(setMetadata(context, id, { protected: false })).changed, false)
})

test('a change that only a stopped VM takes is refused because the VM moves', (t) => {
  const { context, id, offers, accepted, refusal, seenAs, happens } = stage(t)
  seenAs('running')
  accepted(offers())
  const compute = { cpuMillicores: 2000, memoryMib: 256, sleepAfterIdleSeconds: 0 }
  assert.equal(refusal(setCompute(context, id, compute)).code, 'vm_migrating')
  assert.equal(refusal(setNetwork(context, id, { ipv4Address: '192.0.2.11' })).code, 'vm_migrating')
  assert.equal(refusal(setSeed(context, id, { userData: 'x' })).code, 'vm_migrating')
  assert.equal(accepted(setCompute(context, id, { ...compute, cpuMillicores: 1000 })).changed, false)
  happens(...RELEASED)
  assert.equal(refusal(setCompute(context, id, compute)).code, 'vm_migrated')
})

test('what the host has left does not matter to a change of a VM that moves', (t) => {
  const { context, id, capacity, offers, accepted, refusal } = stage(t)
  accepted(offers())
  capacity.total.diskMib = 64
  assert.equal(refusal(setDisk(context, id, { sizeMib: 1024 })).code, 'vm_migrating')
  setMaintenance(context, { state: 'cordoned' })
  assert.equal(refusal(setDisk(context, id, { sizeMib: 1024 })).code, 'vm_migrating')
})

test('a stop withdraws the offer, and its guest is not requested again', (t) => {
  const { context, id, offers, accepted, happens, record } = stage(t)
  accepted(offers())
  happens(COPY, HAND_OVER)
  accepted(setPower(context, id, 'stopped'))
  const { departure, desired, wake } = record()
  assert.deepEqual([departure?.stage, departure?.because], ['withdrawn', 'stopped'])
  assert.deepEqual([desired.power, desired.migration, wake], ['stopped', undefined, undefined])
})

test('a change of a stopped VM that is offered is refused, and the offer stays', (t) => {
  const { context, id, offers, accepted, refusal, record } = stage(t)
  accepted(setPower(context, id, 'stopped'))
  accepted(offers())
  const exit = setExit(context, id, { restartPolicy: 'never' })
  for (const refused of [exit, setDisk(context, id, { sizeMib: 4096 })])
    assert.equal(refusal(refused).code, 'vm_migrating')
  assert.equal(accepted(setPower(context, id, 'stopped')).changed, false)
  assert.deepEqual([record().departure?.stage, record().generations.desired], ['offered', 3])
})

test('a deletion withdraws the offer', (t) => {
  const { context, id, offers, accepted, record } = stage(t)
  accepted(offers())
  accepted(deleteVm(context, id))
  assert.deepEqual([record().deleting, record().departure?.because], [true, 'deleted'])
})

test('a withdrawal of a handover requests the guest again', (t) => {
  const { context, id, offers, accepted, happens, record } = stage(t)
  accepted(offers())
  happens(COPY)
  accepted(withdrawOffer(context, id))
  assert.equal(record().wake, undefined)
  accepted(offers({ id: 'move-8' as MigrationId }))
  happens(COPY, HAND_OVER)
  accepted(withdrawOffer(context, id))
  assert.deepEqual(record().wake, { reason: 'withdrawn', atMs: 1000 })
  assert.equal(accepted(withdrawOffer(context, id)).changed, false)
})

test('a rehearsal of a withdrawal plans with the guest that is requested again, and requests none', (t) => {
  const { context, store, id, offers, accepted, happens, record } = stage(t)
  accepted(offers())
  happens(COPY, HAND_OVER)
  const rehearsed = store.rehearse(() => withdrawOffer({ ...context, poke: () => {} }, id))
  assert.deepEqual(accepted(rehearsed).record.wake, { reason: 'withdrawn', atMs: 1000 })
  assert.equal(record().wake, undefined)
})

test('a migration id is used up when its migration has ended', (t) => {
  const { context, id, offers, accepted, refusal } = stage(t)
  accepted(offers())
  accepted(withdrawOffer(context, id))
  const { code, text } = refusal(offers())
  assert.equal(code, 'migration_ended')
  assert.match(text, /has ended \(withdrawn\)/)
})

test('a migration id belongs to one VM', (t) => {
  const { context, offer, offers, accepted, refusal, create } = stage(t)
  accepted(offers())
  accepted(create({ network: { ipv4Address: '192.0.2.11' } }, 'web-2'))
  assert.equal(refusal(offerVm(context, 'web-2' as VmId, offer())).code, 'conflict')
})

test('a migration id is used up when its VM was released and is gone', (t) => {
  const { context, store, id, offer, offers, accepted, refusal, happens, create } = stage(t)
  accepted(offers())
  happens(...RELEASED)
  accepted(deleteVm(context, id))
  store.vms.forget(id, 2000)
  accepted(create())
  const { code, text } = refusal(offerVm(context, id, offer()))
  assert.equal(code, 'conflict')
  assert.match(text, /has ended before: choose another id/)
  accepted(offerVm(context, id, offer({ id: 'move-8' as MigrationId })))
})

test('a VM that reboots is not offered before its guest has ended', (t) => {
  const { context, id, offers, accepted, refusal } = stage(t)
  accepted(rebootVm(context, id, {}))
  assert.match(refusal(offers()).text, /is to end: wait/)
})

test('a VM whose guest may end by itself is offered when it must end at once', (t) => {
  const { context, id, offers, accepted, refusal } = stage(t)
  accepted(setPower(context, id, 'stopped', { graceSeconds: 60 }))
  assert.match(refusal(offers()).text, /is to end: wait/)
  accepted(setPower(context, id, 'stopped'))
  accepted(offers())
})

test('a host has a bounded number of offers that are not decided', (t) => {
  const { store, offers, accepted, refusal, record } = stage(t)
  let undecided = limits.offersMax
  t.mock.method(store.departures, 'undecided', () => Array.from({ length: undecided }, record))
  assert.equal(refusal(offers()).code, 'offers_full')
  undecided -= 1
  accepted(offers())
})

test('a VM that was released takes nothing but a deletion', (t) => {
  const { context, id, offers, accepted, refusal, happens } = stage(t)
  accepted(offers())
  happens(...RELEASED)
  for (const power of ['running', 'stopped', 'paused'] as const)
    assert.equal(refusal(setPower(context, id, power)).code, 'vm_migrated')
  assert.equal(refusal(withdrawOffer(context, id)).code, 'vm_migrated')
  assert.equal(refusal(offers({ id: 'move-8' as MigrationId })).code, 'vm_migrated')
  assert.equal(accepted(offers()).changed, false)
  assert.equal(refusal(offers({ expiresAtMs: 100_000 })).code, 'vm_migrated')
  accepted(deleteVm(context, id))
})

test('a VM is not offered before its snapshot is uploaded, and takes none while it moves', (t) => {
  const { context, store, id, offers, accepted, refusal } = stage(t)
  const nightly = 'nightly-7' as SnapshotId
  const url = new SignedUrl('https://store.example/part')
  const request = { vmId: id, partMib: 64, urls: { firstPart: 1, parts: [url], complete: url } }
  assert.ok(startSnapshot(context, nightly, request).ok)
  assert.equal(refusal(offers()).code, 'snapshot_under_way')
  store.snapshots.remove(nightly, 3000)
  accepted(offers())
  const refused = startSnapshot(context, nightly, request)
  assert.equal(refused.ok ? undefined : refused.error.code, 'vm_migrating')
})

test('a VM is not offered before a stop with grace or a reboot is carried out', (t) => {
  for (const ends of [
    (context: CommandContext, id: VmId) => setPower(context, id, 'stopped', { graceSeconds: 30 }),
    (context: CommandContext, id: VmId) => rebootVm(context, id, { graceSeconds: 30 }),
  ]) {
    const { context, id, offers, accepted, refusal } = stage(t)
    accepted(ends(context, id))
    const { code, text } = refusal(offers())
    assert.equal(code, 'vm_busy')
    assert.match(text, /the guest of web-1 is to end: wait until that is done/)
  }
})

test('an offer is seen by its node alone, and not after it was withdrawn', async (t) => {
  const { context, id, offers, accepted, departures } = stage(t)
  accepted(offers())
  const read = async (node: string): Promise<string> => {
    const answer = await departures().manifest({ id: 'move-7' as MigrationId, node: node as NodeName })
    return answer.ok ? answer.value.stage : `refused: ${answer.error}`
  }
  assert.deepEqual([await read('node-2'), await read('node-3')], ['offered', 'refused: unknown'])
  accepted(withdrawOffer(context, id))
  assert.deepEqual([await read('node-2'), await read('node-3')], ['refused: withdrawn', 'refused: unknown'])
})
