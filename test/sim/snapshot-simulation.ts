import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { createVm } from '../../src/commands/vm/create-vm.ts'
import { deleteSnapshot, handOverUrls, startSnapshot } from '../../src/commands/snapshots/snapshots.ts'
import { isOver } from '../../src/core/snapshots/record.ts'
import { needsUrls, workOf } from '../../src/core/snapshots/work.ts'
import { Store } from '../../src/store/store.ts'
import { composed, settingsWith } from '../composed.ts'
import { FakeCapacity } from '../fakes/fake-capacity.ts'
import { FakeClock } from '../fakes/fake-clock.ts'
import { FakeHost } from '../fakes/fake-host.ts'
import { FakeObjectStore } from '../fakes/fake-object-store.ts'
import { imageIn, imageOf, MIB, noise, sha256Of, urlsOf } from '../snapshot-stage.ts'
import { Chaos } from './chaos.ts'
import { mortalStore } from './mortal-store.ts'
import { randomFrom } from './random.ts'
import { requestOn } from './requests.ts'
import type { CommandContext } from '../../src/commands/context.ts'
import type { Composition } from '../../src/daemon/compose.ts'
import type { SnapshotId, SnapshotRecord, StagingId } from '../../src/core/snapshots/record.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { FakeUpload } from '../fakes/fake-object-store.ts'
import type { Odds } from './chaos.ts'

export const calm: Odds = { before: 0, after: 0, crash: 0 }
const TURNS_MAX = 5000
/** Turns of the event loop without a call or a write, after which only timers are waited for. */
const QUIET_TURNS = 12
const CONTENT = noise('what no compression makes smaller', Math.round(2.2 * MIB))
const busy = { kind: 'busy', because: 'it answered 503 (SlowDown)' } as const

export type SnapshotSimulationOptions = {
  readonly seed: number
  /** Whether the store forgets an upload when it completes it. */
  readonly forgetsCompleted: boolean
  readonly stagingQuotaMib: number
}

type Life = { readonly chaos: Chaos } & Composition

/** Workers and the owner of snapshots on a fake host with guests that write, a store, and a controller beside them. */
export class SnapshotSimulation {
  readonly random: () => number
  readonly clock: FakeClock
  readonly store: Store
  readonly host: FakeHost
  readonly #quotaMib: number
  readonly uploads = new Map<SnapshotId, FakeUpload>()
  readonly #directory: string
  readonly #captured = new Map<StagingId, Buffer>()
  #life: Life | undefined
  #violation: unknown
  #writes = 0
  deaths = 0

  constructor({ seed, forgetsCompleted, stagingQuotaMib }: SnapshotSimulationOptions) {
    this.#quotaMib = stagingQuotaMib
    this.random = randomFrom(seed)
    this.clock = new FakeClock({ random: this.random })
    this.#directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'vmhostd-snap-'))
    this.store = new Store(this.#directory, { first: 600_000, count: 100 }, { datasync: async () => {} })
    const objectStore = new FakeObjectStore({ forgetsCompleted })
    this.host = new FakeHost(this.clock, this.store.storeId, { objectStore })
    this.#watchCaptures()
    this.#watchParts()
  }

  get life(): Life {
    assert.ok(this.#life !== undefined)
    return this.#life
  }

  get context(): CommandContext {
    // The daemon must not lose a request that was accepted.
    return { ...this.life.commands, store: this.store }
  }

  /** Starts a daemon; one that dies meanwhile is followed by another. */
  async boot(odds: Odds): Promise<void> {
    const chaos = new Chaos(this.host, odds, this.random)
    const parts = composed({
      store: mortalStore(this.store, chaos),
      host: chaos.host,
      settings: settingsWith({ snapshots: { uploadsMax: 2, stagingQuotaMib: this.#quotaMib } }),
      instead: { capacity: new FakeCapacity() },
    })
    const { reconciler, snapshots } = parts
    this.#life = { chaos, ...parts }
    const started = reconciler.start()
    await this.quiet()
    if (chaos.dead) return this.#reboot(odds)
    await started
    snapshots.start()
    await this.quiet()
    if (chaos.dead) await this.#reboot(odds)
  }

  create(vm: VmId, index: number): void {
    createVm(this.context, vm, requestOn(this.host, index))
  }

  start(id: SnapshotId, vmId: VmId, urls = urlsOf(this.upload(id))): void {
    startSnapshot(this.context, id, { vmId, partMib: 1, urls })
  }

  /** Returns the upload of this snapshot, and creates it if there is none. */
  upload(id: SnapshotId): FakeUpload {
    const upload = this.uploads.get(id) ?? this.host.objectStore.openUpload()
    this.uploads.set(id, upload)
    return upload
  }

  drop(id: SnapshotId): void {
    deleteSnapshot(this.context, id)
    this.uploads.delete(id)
  }

  busyOnce(method: 'putPart' | 'complete', moment: 'before' | 'after'): void {
    this.host.objectStore.answerNext(method, busy, moment)
  }

  /** Lets all background work continue, and restarts a daemon that died. */
  async round(odds: Odds): Promise<void> {
    await this.quiet()
    this.check()
    if (this.life.chaos.dead) await this.#reboot(odds)
    this.guestsWrite()
  }

  /** Guests that run and are not frozen write to their disks. */
  guestsWrite(): void {
    const { monitor } = this.host
    for (const vm of this.store.vms.ids()) {
      monitor.agents.add(vm)
      if (monitor.stateOf(vm).kind === 'running' && !monitor.frozen.has(vm)) this.#write(vm)
    }
  }

  /** Ends all faults. */
  heal(): void {
    this.life.chaos.odds = calm
  }

  /** Acts as a controller that keeps its uploads going. */
  supply(): void {
    for (const record of this.store.snapshots.open()) {
      const { id } = record
      const work = workOf(record, this.store.snapshots.parts(id), this.store.snapshots.urlsAtHand(id))
      if (needsUrls(work.lacks) || record.stage === 'failed')
        handOverUrls(this.context, id, urlsOf(this.upload(id)))
    }
  }

  async quiet(): Promise<void> {
    const { chaos } = this.life
    let before = chaos.moments
    let still = 0
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      await setImmediate()
      still = chaos.moments === before ? still + 1 : 0
      before = chaos.moments
      if (still >= QUIET_TURNS || chaos.dead) return
    }
    assert.fail(`there was no rest within ${TURNS_MAX} turns`)
  }

  /** Checks the invariants that always hold. */
  check(): void {
    if (this.#violation !== undefined) throw this.#violation
    for (const vm of this.host.monitor.frozen)
      assert.ok(this.store.frozenGuests.has(vm), `${vm}: is frozen, and no record says so`)
    const stagedBytes = this.records().reduce((sum, { staged }) => sum + staged.bytes, 0)
    assert.ok(stagedBytes <= this.#quotaMib * MIB, `${stagedBytes} bytes are staged`)
  }

  records(): readonly SnapshotRecord[] {
    return this.store.snapshots.list({ limit: 100 })
  }

  /** Checks that the object is the disk as it was captured. */
  checkObject({ id, stagingId, sha256 }: SnapshotRecord): void {
    const image = this.#captured.get(stagingId)
    const object = this.uploads.get(id)?.object
    assert.ok(image !== undefined && object !== undefined, `${id}: there is no object`)
    assert.ok(imageIn(object).equals(image), `${id}: the object is not the disk at the capture`)
    assert.equal(createHash('sha256').update(image).digest('hex'), sha256, `${id}: its digest`)
  }

  /** Checks that no guest waits for anything, and that nothing unneeded remains. */
  async checkRest(): Promise<void> {
    this.check()
    for (const vm of this.store.vms.ids()) {
      const { desired } = this.store.vms.get(vm) ?? assert.fail()
      const sleeps = this.host.savedStates.metadataOf(vm) !== undefined
      const kind = desired.power === 'stopped' || sleeps ? 'silent' : desired.power
      assert.equal(this.host.monitor.stateOf(vm).kind, kind, `${vm}: does not do as desired`)
      if (kind === 'running') assert.equal(this.host.monitor.frozen.has(vm), false, `${vm}: is frozen`)
    }
    await this.#checkStaging()
  }

  /** Checks that staging agrees with the records, byte for byte, and has no clone that is no longer packed. */
  async #checkStaging(): Promise<void> {
    const listed = new Map((await this.host.staging.list()).map((one) => [one.stagingId, one]))
    for (const record of this.records()) {
      const { id, stage, stagingId, staged, sha256 } = record
      const { packedBytes = 0, cloneBytes = 0 } = listed.get(stagingId) ?? {}
      if (sha256 !== undefined) {
        assert.equal(packedBytes, staged.bytes, `${id}: ${stage}, and staging has something else`)
        assert.equal(cloneBytes, 0, `${id}: ${stage}, and its clone is still there`)
      }
      if (staged.bytes > 0 && staged.isWhole) await this.#checkParts(record)
      if (staged.bytes > 0 || !isOver(record)) listed.delete(stagingId)
    }
    assert.deepEqual([...listed.keys()], [], 'staging without a record is left')
  }

  async #checkParts({ id, stagingId }: SnapshotRecord): Promise<void> {
    for (const part of this.store.snapshots.parts(id)) {
      const sha256 = await sha256Of(this.host.staging.partBody(stagingId, part))
      assert.equal(sha256, part.sha256, `${id}: part ${part.number} in staging`)
    }
  }

  close(): void {
    this.store.close()
    rmSync(this.#directory, { recursive: true })
  }

  /** Recovers from a death; every second death loses unflushed writes. */
  async #reboot(odds: Odds): Promise<void> {
    this.deaths += 1
    if (this.deaths % 2 === 1) this.host.staging.losePower()
    this.host.staging.restart()
    const { dieAt: _once, ...rest } = odds
    await this.boot(rest)
  }

  #write(vm: VmId): void {
    const content = Buffer.from(CONTENT)
    content.write(`${vm} ${(this.#writes += 1)}`)
    this.host.diskContents.set(vm, { content, sizeBytes: 3 * MIB })
  }

  #watchCaptures(): void {
    const { staging, monitor, diskContents } = this.host
    const clone = staging.clone.bind(staging)
    staging.clone = async (stagingId, vm) => {
      // A disk that no guest has written to yet has some content as well.
      if (!diskContents.has(vm)) this.#write(vm)
      const disk = diskContents.get(vm)
      if (monitor.stateOf(vm).kind === 'running')
        this.#violation ??= new Error(`${vm}: captured while it runs`)
      await clone(stagingId, vm)
      if (disk !== undefined) this.#captured.set(stagingId, imageOf(disk))
    }
  }

  #watchParts(): void {
    const { objectStore } = this.host
    const putPart = objectStore.putPart.bind(objectStore)
    objectStore.putPart = (part, signal) => {
      const { snapshots } = this.store
      for (const { id } of snapshots.open()) {
        for (const { number, etag } of snapshots.parts(id)) {
          if (etag === undefined || snapshots.url(id, number)?.equals(part.url) !== true) continue
          this.#violation ??= new Error(`${id}: part ${number} is sent again`)
        }
      }
      return putPart(part, signal)
    }
  }
}
