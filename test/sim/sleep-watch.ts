import assert from 'node:assert/strict'
import { mustEnd } from '../../src/core/vm/record.ts'
import { isLiveMonitor } from '../../src/core/world/world.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { FakeHost } from '../fakes/fake-host.ts'

/** Time that a packet may wait for its guest and still be delivered. */
type Sent = { readonly name: string; readonly atMs: number }

export type SleepWatchOptions = {
  readonly host: FakeHost
  readonly recordOf: (id: VmId) => VmRecord | undefined
  readonly onViolation: (violation: unknown) => void
}

/**
 * Watches how the daemon, in any of its lives, treats sleeping guests. No guest is lost or in two places, and none
 * continues from a state that it had already left behind. No packet for a guest is forgotten.
 */
export class SleepWatch {
  readonly #options: SleepWatchOptions
  /** VMs that were stopped or deleted since their guest was last started or saved: their saved state may go. */
  readonly #given = new Set<VmId>()
  /** The last life of each ended VM: none of its guests may be there once the stop is carried out. */
  readonly #ended = new Map<VmId, number>()
  /** Packets that were held for a guest, and that it must get in the end. */
  readonly #held = new Map<VmId, Sent[]>()
  #packets = 0
  /** Events that were seen; a history in which no guest slept proves nothing. */
  readonly seen = { saves: 0, restores: 0, held: 0 }

  constructor(options: SleepWatchOptions) {
    this.#options = options
    const { host } = options
    this.#before(host.units, 'ensureStopped', (id) => this.#onEnd(id))
    for (const removal of ['removePublished', 'remove'] as const)
      this.#before(host.savedStates, removal, (id) => this.#onRemove(id))
    this.#before(host.savedStates, 'publish', (id) => {
      this.seen.saves += 1
      // A save that a stop overtook is given up.
      if (options.recordOf(id)?.desired.power !== 'stopped') this.#given.delete(id)
    })
    for (const monitor of Object.values(host.monitors)) {
      this.#before(monitor, 'resumeFromSave', (id) => this.#onRun(id))
      this.#before(monitor, 'ensureRunning', (id) => this.#onRun(id))
      const started = monitor.started.bind(monitor)
      monitor.started = (id, spec, diskMib) => {
        const restores = spec.command.some((word) => word.startsWith('restore='))
        if (restores) this.seen.restores += 1
        if (!restores) this.#note(id, () => this.#onBoot(id))
        started(id, spec, diskMib)
      }
    }
  }

  /** Records a request to end the guest. */
  giveUp(id: VmId): void {
    this.#given.add(id)
    this.#held.delete(id)
    this.#ended.set(id, Math.max(this.#ended.get(id) ?? 0, ...this.#lives(id)))
  }

  /** Checks that a guest that was stopped is neither there nor saved: any present one was booted since. */
  checkEnded(id: VmId): void {
    for (const life of this.#lives(id))
      assert.ok(life > (this.#ended.get(id) ?? 0), `${id}: a guest outlived a stop that was accepted`)
  }

  /** Excuses lost packets and guests after something happened to the host or the daemon. */
  excuse(id: VmId): void {
    this.#held.delete(id)
  }

  /** Sends a packet to the guest. */
  receive(record: VmRecord): void {
    const { host } = this.#options
    const { id } = record
    const name = `${id} ${String((this.#packets += 1)).padStart(8, '0')}`
    if (host.traffic.receive(record.host.device, { name }) !== 'held') return
    this.seen.held += 1
    // A packet for a guest that must end goes with it.
    if (mustEnd(record)) return
    this.#held.set(id, [...(this.#held.get(id) ?? []), { name, atMs: host.clock.now() }])
  }

  /** Checks at the end of a history that every held packet was delivered in order, or is known to have been dropped. */
  check(ids: readonly VmId[]): void {
    const { host, recordOf } = this.#options
    for (const { relived } of Object.values(host.monitors))
      assert.deepEqual(relived, [], 'a guest went on from a past that it had left behind')
    for (const id of ids) {
      const record = recordOf(id)
      if (record === undefined) continue
      const given = host.traffic.given(record.host.userId).filter((name) => name.startsWith(`${id} `))
      assert.deepEqual(given, given.toSorted(), `${id}: packets were given out of order`)
      for (const { name } of this.#held.get(id) ?? []) {
        const known = given.includes(name) || host.traffic.lost.includes(name)
        assert.ok(known, `${id}: the packet ${name} was forgotten`)
      }
    }
  }

  /** Checks that all held packets were delivered. Only for a history without another cause for lost packets. */
  checkNoneLost(): void {
    const lost = [...this.#held.values()]
      .flat()
      .filter(({ name }) => this.#options.host.traffic.lost.includes(name))
    assert.deepEqual(lost, [], 'packets for a guest that slept were lost')
  }

  /**
   * Checks a unit's end: its guest is in the pool in its present state, or the end was requested, or there is no guest.
   */
  #onEnd(id: VmId): void {
    const { host } = this.#options
    if (this.#isGiven(id) || !isLiveMonitor(host.monitorOf(id).stateOf(id))) return
    const saved = host.savedFiles.at(host.savedStates.paths(id).published)
    assert.deepEqual(
      saved?.memory,
      host.monitorOf(id).memoryOf(id),
      `${id}: a guest was ended that is not saved`,
    )
  }

  /** Checks a removal of saved state: the guest is in its monitor as it was saved, or was given up. */
  #onRemove(id: VmId): void {
    const { host } = this.#options
    const saved = host.savedFiles.at(host.savedStates.paths(id).published)
    if (saved === undefined || host.savedStates.metadataOf(id) === undefined || this.#isGiven(id)) return
    const lives = isLiveMonitor(host.monitorOf(id).stateOf(id))
    const memory = lives ? host.monitorOf(id).memoryOf(id) : undefined
    assert.equal(
      memory?.life,
      saved.memory.life,
      `${id}: the saved state was removed, and neither a monitor nor the pool has the guest`,
    )
  }

  #onRun(id: VmId): void {
    const { host } = this.#options
    if (host.monitorOf(id).stateOf(id).kind === 'running') return
    assert.equal(
      host.savedStates.metadataOf(id),
      undefined,
      `${id}: a guest runs beside what was saved of it`,
    )
  }

  /** Lives of the guest in its monitor, and of the one in the pool. */
  #lives(id: VmId): number[] {
    const { savedFiles, savedStates } = this.#options.host
    const monitor = this.#options.host.monitorOf(id)
    const there = isLiveMonitor(monitor.stateOf(id)) ? monitor.memoryOf(id) : undefined
    const saved = savedFiles.at(savedStates.paths(id).published)?.memory
    return [there, saved].flatMap((memory) => (memory === undefined ? [] : [memory.life]))
  }

  #onBoot(id: VmId): void {
    const { host } = this.#options
    assert.equal(host.savedStates.metadataOf(id), undefined, `${id}: a boot beside a guest that is saved`)
  }

  #isGiven(id: VmId): boolean {
    const record = this.#options.recordOf(id)
    return this.#given.has(id) || record === undefined || record.deleting
  }

  /** A pass treats a thrown error as a bug of its own, so it is kept for the end. */
  #note(id: VmId, check: (id: VmId) => void): void {
    try {
      check(id)
    } catch (violation) {
      this.#options.onViolation(violation)
    }
  }

  #before<Name extends string>(
    port: { [name in Name]: (id: VmId, ...rest: never[]) => unknown },
    name: Name,
    check: (id: VmId) => void,
  ): void {
    const method = port[name]
    const watched = (id: VmId, ...rest: never[]): unknown => {
      this.#note(id, check)
      return Reflect.apply(method, port, [id, ...rest])
    }
    Object.assign(port, { [name]: watched })
  }
}
