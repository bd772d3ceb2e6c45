import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { offerVm } from '../../commands/migration/offer-vm.ts'
import { afterEvent } from '../../core/migration/departure.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { silentLog } from '../../log/log.ts'
import { breakRecord, mendRecord } from '../../../test/break-record.ts'
import { commandStage } from '../../../test/command-stage.ts'
import { lockStore } from '../../../test/locked-store.ts'
import { OfferExpiry } from './offer-expiry.ts'
import type { TestContext } from 'node:test'
import type { ArrivalId, DepartureEvent } from '../../core/migration/departure.ts'
import type { VmId } from '../../core/ids.ts'
import type { MigrationId, NodeName, Offer } from '../../core/migration/offer.ts'

const START_MS = 1000
const arrival = 'a' as ArrivalId

const offer = (expiresInMs: number): Offer => ({
  id: 'move-7' as MigrationId,
  node: 'node-2' as NodeName,
  mode: 'live',
  expiresAtMs: START_MS + expiresInMs,
})

function stage(t: TestContext, expiresInMs = 60_000) {
  const { directory, store, id, context, create, accepted, pokes } = commandStage(t)
  accepted(create())
  accepted(offerVm(context, id, offer(expiresInMs)))
  pokes.length = 0
  const clock = new FakeClock({ nowMs: START_MS })
  const newExpiry = (): OfferExpiry => {
    const poke = (vm: VmId, reason: string): void => void pokes.push(`${vm}: ${reason}`)
    const made = new OfferExpiry({ store, clock, poke, log: silentLog })
    t.after(() => made.stop())
    return made
  }
  const expiry = newExpiry()
  return {
    directory,
    clock,
    id,
    /** Offers another VM for as long. */
    offerAnother: (): VmId => {
      const other = 'web-2' as VmId
      accepted(create({ network: { ipv4Address: '192.0.2.20' } }, other))
      accepted(offerVm(context, other, { ...offer(expiresInMs), id: 'move-8' as MigrationId }))
      return other
    },
    expiry,
    /** Ends the life of the daemon, and begins the next one while the clock is set. */
    restart: (setByMs: number): void => {
      expiry.stop()
      clock.set(setByMs)
      newExpiry().start()
    },
    /** Offers the VM until another time. */
    moveTo: (ms: number): void => void accepted(offerVm(context, id, offer(ms))),
    pokes,
    store,
    record: () => store.vms.get(id) ?? assert.fail('the VM is gone'),
    happens: (...events: DepartureEvent[]) => {
      for (const event of events) {
        const { departure } = store.vms.get(id) ?? {}
        const after = departure && afterEvent(departure, event, clock.now())
        assert.ok(after?.ok === true)
        store.departures.set(id, after.value, clock.now())
      }
    },
  }
}

test('an offer that no host took is withdrawn at its time, and not before', (t) => {
  const { clock, expiry, record, pokes } = stage(t, 60_000)
  expiry.start()
  clock.advance(59_999)
  assert.equal(record().departure?.stage, 'offered')
  clock.advance(1)
  assert.deepEqual([record().departure?.stage, record().departure?.because], ['withdrawn', 'expired'])
  assert.deepEqual(pokes, ['web-1: offer expired'])
  assert.equal(record().wake, undefined)
})

test('a handover that lasts too long is withdrawn, and its guest is requested again', (t) => {
  const { clock, expiry, record, happens } = stage(t, limits.offerMsMax)
  expiry.start()
  happens({ kind: 'copy', arrival }, { kind: 'hand_over', arrival, lived: 'running' })
  clock.advance(limits.handoverMsMax - 1)
  // The time of the save counts too.
  happens({ kind: 'guest_saved', lastRound: 1 })
  assert.equal(record().departure?.stage, 'handed_over')
  clock.advance(1)
  assert.equal(record().departure?.because, 'handover_expired')
  assert.equal(record().wake?.reason, 'withdrawn')
})

test('an offer that expires during its handover is withdrawn then, although the handover may last longer', (t) => {
  const expiresInMs = limits.handoverMsMax - 1
  const { clock, expiry, record, happens } = stage(t, expiresInMs)
  expiry.start()
  happens({ kind: 'copy', arrival }, { kind: 'hand_over', arrival, lived: 'running' })
  clock.advance(expiresInMs)
  assert.equal(record().departure?.because, 'expired')
  assert.equal(record().wake?.reason, 'withdrawn')
})

test('a VM that was released stays released', (t) => {
  const { clock, expiry, record, happens } = stage(t, 60_000)
  expiry.start()
  happens(
    { kind: 'copy', arrival },
    { kind: 'hand_over', arrival, lived: 'running' },
    { kind: 'guest_saved', lastRound: 2 },
    { kind: 'release', arrival, lastRound: 2 },
  )
  clock.advance(limits.offerMsMax)
  assert.equal(record().departure?.stage, 'released')
})

test('an offer that expired while the daemon was down is withdrawn at its start', (t) => {
  const { clock, expiry, record } = stage(t, 60_000)
  clock.advance(60_000)
  expiry.start()
  assert.equal(record().departure?.because, 'expired')
})

test('a clock that was set ends no offer and no handover early or late', (t) => {
  for (const byMs of [limits.offerMsMax, -limits.offerMsMax]) {
    const { clock, expiry, record } = stage(t, 60_000)
    expiry.start()
    clock.set(byMs)
    clock.advance(59_999)
    assert.equal(record().departure?.stage, 'offered')
    clock.advance(1)
    assert.equal(record().departure?.because, 'expired')
    const other = stage(t, limits.offerMsMax)
    other.expiry.start()
    other.happens({ kind: 'copy', arrival }, { kind: 'hand_over', arrival, lived: 'running' })
    other.clock.set(byMs)
    other.clock.advance(limits.handoverMsMax - 1)
    assert.equal(other.record().departure?.stage, 'handing_over')
    other.clock.advance(1)
    assert.equal(other.record().departure?.because, 'handover_expired')
  }
})

test('a clock that was set back while the daemon was down leaves no more time than a handover may have', (t) => {
  const { clock, restart, record, happens } = stage(t, limits.offerMsMax)
  happens({ kind: 'copy', arrival }, { kind: 'hand_over', arrival, lived: 'running' })
  restart(-limits.offerMsMax)
  clock.advance(limits.handoverMsMax)
  assert.equal(record().departure?.because, 'handover_expired')
})

test('an offer whose time was moved ends at the new one', (t) => {
  const { clock, expiry, record, moveTo } = stage(t, 60_000)
  expiry.start()
  clock.advance(30_000)
  moveTo(120_000)
  clock.advance(89_999)
  assert.equal(record().departure?.stage, 'offered')
  clock.advance(1)
  assert.equal(record().departure?.because, 'expired')
})

test('an offer that expires while the records cannot be written is withdrawn when they can', async (t) => {
  const { directory, clock, expiry, record } = stage(t, 60_000)
  clock.advance(60_000)
  const free = lockStore(directory)
  expiry.start()
  clock.advance(limits.offerRecheckMs)
  assert.equal(record().departure?.stage, 'offered')
  await free()
  clock.advance(limits.offerRecheckMs - 1)
  assert.equal(record().departure?.stage, 'offered', 'it is not tried all the time')
  clock.advance(1)
  assert.equal(record().departure?.because, 'expired')
})

test('an offer that has not expired needs no write', (t) => {
  const { store, clock, expiry, record } = stage(t, limits.offerMsMax)
  expiry.start()
  const writes = t.mock.method(store, 'transaction')
  clock.advance(3 * limits.offerRecheckMs)
  assert.equal(writes.mock.callCount(), 0)
  assert.equal(record().departure?.stage, 'offered')
})

test('a record that cannot be read keeps no other offer from its end, nor a daemon from its start', (t) => {
  const { directory, store, clock, expiry, id, offerAnother, record } = stage(t, 60_000)
  const other = offerAnother()
  breakRecord(directory, id)
  clock.advance(60_000)
  expiry.start()
  assert.equal(store.vms.get(other)?.departure?.because, 'expired')
  mendRecord(directory, id)
  expiry.start()
  assert.equal(record().departure?.because, 'expired')
})
