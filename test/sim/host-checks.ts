import assert from 'node:assert/strict'
import { tapLayout } from '../../src/core/network/tap.ts'
import { tapSpecOf } from '../../src/reconcile/intent.ts'
import { hasEnded } from '../../src/core/vm/exit-policy.ts'
import { hasLeft, isLeaving } from '../../src/core/vm/leaving.ts'
import type { DesiredPower } from '../../src/core/desired.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { FakeHost } from '../fakes/fake-host.ts'
import type { SleepWatch } from './sleep-watch.ts'

/** Returns the power that the host must show: a guest that ended for good rests. */
const powerOf = (record: VmRecord): DesiredPower => (hasEnded(record) ? 'stopped' : record.desired.power)

const isSleeper = (record: VmRecord): boolean =>
  powerOf(record) !== 'stopped' && record.desired.compute.sleepAfterIdleSeconds > 0

export type HostChecksOptions = {
  readonly host: FakeHost
  readonly recordOf: (id: VmId) => VmRecord | undefined
  readonly sleep: SleepWatch
  /** Same as {@link Odds.withoutTraffic}. */
  readonly withoutTraffic: boolean
}

/** Compares the host with the records: at each published generation, and when all is at rest. */
export class HostChecks {
  readonly #host: FakeHost
  readonly #recordOf: HostChecksOptions['recordOf']
  readonly #sleep: SleepWatch
  readonly #withoutTraffic: boolean
  readonly #published = new Map<VmId, number>()
  #drained: { readonly request: number; readonly active: ReadonlySet<VmId> } | undefined

  constructor({ host, recordOf, sleep, withoutTraffic }: HostChecksOptions) {
    this.#host = host
    this.#recordOf = recordOf
    this.#sleep = sleep
    this.#withoutTraffic = withoutTraffic
  }

  /** Accepts older generations after a loss of unflushed writes, because no reader saw the lost ones. */
  restart(ids: readonly VmId[]): void {
    this.#published.clear()
    for (const id of ids) {
      const { generations } = this.#recordOf(id) ?? {}
      if (generations !== undefined) this.#published.set(id, generations.observed)
    }
  }

  /** Checks that the host is in the desired state whenever a generation is published, and that none is taken back. */
  checkPublished(id: VmId): void {
    const record = this.#recordOf(id)
    if (record === undefined) {
      this.#published.delete(id)
      return
    }
    const { generations, powerGeneration } = record
    const { observed, desired } = generations
    const last = this.#published.get(id) ?? 0
    assert.ok(observed >= last, `${id}: the observed generation fell from ${last} to ${observed}`)
    assert.ok(observed <= desired, `${id}: observed ${observed} passed desired ${desired}`)
    this.#published.set(id, observed)
    if (observed <= last) return
    // For a caller that asked for a sleeping guest, this generation says that the guest is back.
    const wasAsked = powerGeneration > last && powerGeneration <= observed
    assert.ok(!wasAsked || !this.#isAsleep(id), `${id}: a guest that was asked for sleeps`)
    if (observed === desired) this.#checkHost(record)
  }

  #checkHost(record: VmRecord): void {
    const { id, host, desired } = record
    const power = powerOf(record)
    this.#sleep.checkEnded(id)
    if (hasLeft(record)) return this.#checkLeft(record)
    if (this.#isAsleep(id)) return
    const unit = this.#host.fakeUnits.stateOf(id)
    const guest = this.#host.monitorOf(id).stateOf(id)
    const expected = power === 'stopped' ? ['absent', 'silent'] : ['active', power]
    const early = `${id}: published a generation that the host has not reached`
    // A guest that paused for its disk counts as paused.
    const stands = guest.kind === 'stalled' && desired.power === 'paused'
    assert.deepEqual([unit.kind, stands ? 'paused' : guest.kind], expected, early)
    const disk = this.#host.storage.disks.get(id)
    // A VM that was stopped before it had a disk gets one at its start.
    if (disk !== undefined || power !== 'stopped' || desired.image.rebuild !== undefined) {
      const { rootfsSha256, rebuild } = disk?.note ?? {}
      assert.deepEqual([rootfsSha256, rebuild], [desired.image.rootfsSha256, desired.image.rebuild], early)
    }
    if (power === 'stopped') return
    assert.deepEqual('disk' in guest && guest.disk, desired.disk, early)
    const tap = this.#host.taps.devices.get(host.device)
    assert.ok(tap?.kind === 'tap', early)
    assert.deepEqual(tap.facts.bandwidth, desired.network?.bandwidth ?? {}, early)
    assert.deepEqual(tap.facts.routes, tapLayout(tapSpecOf(record) ?? assert.fail(early)).routes, early)
    assert.notEqual(tap.lostBy, unit.kind === 'active' && unit.mainPid, early)
  }

  /**
   * Checks that no unit has started since the last look at a drained host. `request` is the number of the request that
   * drained it; undefined if it is not drained. Only a guest that a stop lets end by itself may come back for that.
   */
  checkDrained(ids: readonly VmId[], request: number | undefined): void {
    const active = new Set(ids.filter((id) => this.#host.fakeUnits.stateOf(id).kind !== 'absent'))
    const before = this.#drained
    if (request !== undefined && before?.request === request)
      for (const id of active) {
        const mayEnd = this.#recordOf(id)?.stops.grace !== undefined
        assert.ok(before.active.has(id) || mayEnd, `${id}: started on a drained host`)
      }
    this.#drained = request === undefined ? undefined : { request, active }
  }

  checkAtRest(id: VmId): void {
    const record = this.#recordOf(id)
    if (record === undefined) {
      assert.equal(this.#host.fakeUnits.stateOf(id).kind, 'absent', `${id}: a unit of a deleted VM is left`)
      assert.equal(this.#host.storage.disks.has(id), false, `${id}: a disk of a deleted VM is left`)
      return
    }
    const cannotSleep = this.#withoutTraffic && isSleeper(record) && !hasLeft(record)
    const fault = cannotSleep ? 'traffic_failed' : undefined
    assert.equal(record.observed.fault?.code, fault, `${id}: a fault outlived its cause, or is missing`)
    if (isLeaving(record)) assert.equal(record.observed.waitingFor, 'the destination')
    else if (!cannotSleep)
      assert.equal(record.generations.observed, record.generations.desired, `${id}: not settled`)
    const isAsleep = this.#isAsleep(id)
    if (hasLeft(record)) return this.#checkLeft(record)
    assert.equal(record.observed.state, isAsleep ? 'sleeping' : powerOf(record))
    assert.equal(record.wake, undefined, `${id}: a wake is not over`)
    this.#checkHost(record)
    this.#checkRemains(record)
  }

  /** Checks that a VM that was released has nothing on this host any more. */
  #checkLeft({ id, host, observed }: VmRecord): void {
    assert.equal(observed.state, 'migrated')
    assert.equal(this.#host.fakeUnits.stateOf(id).kind, 'absent', `${id}: runs on beside its destination`)
    assert.equal(this.#host.storage.disks.has(id), false, `${id}: its disk is left`)
    assert.equal(this.#host.savedStates.metadataOf(id), undefined, `${id}: its memory is left`)
    assert.equal(this.#host.taps.devices.has(host.device), false, `${id}: its tap is left`)
  }

  /**
   * Checks that a present guest has left nothing in the pool, and one that is stopped or sleeps nothing in its record.
   */
  #checkRemains({ id, desired, observed, launch }: VmRecord): void {
    const { savedStates, savedFiles, fakeUnits } = this.#host
    const { state } = observed
    if (desired.power === 'stopped') assert.equal(launch, undefined, `${id}: stopped, and has a launch`)
    // A launch of an earlier boot ended with that boot.
    if (state === 'sleeping')
      assert.notEqual(launch?.bootId, this.#host.bootId, `${id}: sleeps, and has a launch`)
    if (fakeUnits.stateOf(id).kind !== 'active') return
    const { writing, published } = savedStates.paths(id)
    const left = savedFiles.paths().filter((path) => path === writing || path === published)
    assert.deepEqual([left, savedStates.metadataOf(id)], [[], undefined], `${id}: saved beside its guest`)
  }

  /** Checks a VM after a long time without traffic. */
  checkAsleepWhereIdle(id: VmId): void {
    const record = this.#recordOf(id)
    if (record === undefined) return
    const isKnown = !this.#withoutTraffic
    // A VM that is offered stays as it is, asleep or not, until packets or a destination come.
    if (isLeaving(record) || hasLeft(record)) return
    // The clock may have been set back after a request to stay awake, before or after the guest fell asleep.
    if ((record.keepAwakeUntilMs ?? 0) > this.#host.clock.now()) return
    const sleeps = isKnown && powerOf(record) === 'running' && isSleeper(record)
    assert.equal(this.#isAsleep(id), sleeps, `${id}: asleep`)
  }

  /** Checks that a VM that must stay awake is not asleep. The clock was not set since that was requested. */
  checkKeptAwake(id: VmId): void {
    const until = this.#recordOf(id)?.keepAwakeUntilMs ?? 0
    assert.ok(until <= this.#host.clock.now() || !this.#isAsleep(id), `${id}: asleep before its time`)
  }

  /** Checks a VM after a packet came. */
  checkAwake(id: VmId): void {
    const record = this.#recordOf(id)
    if (record !== undefined && !hasLeft(record)) assert.equal(record.observed.state, powerOf(record))
  }

  #isAsleep(id: VmId): boolean {
    const { desired } = this.#recordOf(id) ?? {}
    return (
      desired?.power === 'running' &&
      this.#host.fakeUnits.stateOf(id).kind === 'absent' &&
      this.#host.savedStates.metadataOf(id) !== undefined
    )
  }
}
