import assert from 'node:assert/strict'
import { commitmentOf, heldMemoryMib } from '../../src/core/capacity/ledger.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { Store } from '../../src/store/store.ts'
import type { FakeCapacity } from '../fakes/fake-capacity.ts'
import type { FakeHost } from '../fakes/fake-host.ts'

type Watched = { readonly host: FakeHost; readonly store: Store; readonly capacity: FakeCapacity }

/**
 * Watches who has memory on a host that lends it. Guests that run never have more than VMs may have, VMs have their
 * memory back in the order in which they began to wait, and none that is kept awake falls asleep to make room.
 */
export class MemoryWatch {
  readonly #watched: Watched
  readonly #onViolation: (violation: unknown) => void
  /** VMs that wait, by the requests of the daemon; so the order is not taken from what is under test. */
  readonly #queue: VmId[] = []
  /** VMs that ran while they were to be kept awake, and until when. */
  readonly #kept = new Map<VmId, number>()
  /** Events that were seen; a history in which no VM waited proves nothing. */
  readonly seen = { waits: 0, longest: 0, returns: 0 }

  constructor(watched: Watched, onViolation: (violation: unknown) => void) {
    this.#watched = watched
    this.#onViolation = onViolation
    const { host, store } = watched
    const { fakeUnits } = host
    const { memoryLoans } = store
    const started = fakeUnits.ensureStarted.bind(fakeUnits)
    fakeUnits.ensureStarted = (id, spec, signal) => {
      this.#note(() => this.#checkRoom(id))
      return started(id, spec, signal)
    }
    const around = (name: 'lend' | 'end' | 'leave', check: (id: VmId) => void): void => {
      const method = memoryLoans[name].bind(memoryLoans)
      memoryLoans[name] = (id) => {
        this.#note(() => check(id))
        method(id)
      }
    }
    around('end', (id) => this.#onReturn(id))
    for (const name of ['lend', 'leave'] as const) around(name, (id) => this.#remove(id))
    const want = memoryLoans.want.bind(memoryLoans)
    memoryLoans.want = (id, nowMs) => {
      this.#onWait(id)
      want(id, nowMs)
    }
  }

  /** Forgets a VM that was stopped, and may therefore be asleep or gone. */
  excuse(id: VmId): void {
    this.#kept.delete(id)
  }

  /** Checks a moment at which no pass runs. */
  check(ids: readonly VmId[]): void {
    const { store, capacity, host } = this.#watched
    const held = heldMemoryMib(store.vms.recorded(), capacity.memoryTerms())
    assert.ok(held <= capacity.total.memoryMib, `VMs have ${held} MiB of ${capacity.total.memoryMib}`)
    for (const id of ids) {
      const isSaved = host.savedStates.metadataOf(id) !== undefined
      const runs = host.fakeUnits.stateOf(id).kind === 'active'
      const nowMs = host.clock.now()
      const isKept = (this.#kept.get(id) ?? 0) > nowMs
      assert.ok(runs || !isSaved || !isKept, `${id}: is kept awake, and fell asleep`)
      const { keepAwakeUntilMs = 0 } = store.vms.get(id) ?? {}
      // A guest that is saved already is woken again.
      if (runs && !isSaved && keepAwakeUntilMs > nowMs) this.#kept.set(id, keepAwakeUntilMs)
      else this.#kept.delete(id)
    }
  }

  /** Checks that the start of a unit leaves all guests within the memory that VMs may have. */
  #checkRoom(id: VmId): void {
    const { host, store, capacity } = this.#watched
    const present = store.vms
      .ids()
      .filter((other) => other === id || host.fakeUnits.stateOf(other).kind === 'active')
    const mib = present.reduce((sum, each) => sum + this.#wholeMib(each), 0)
    assert.ok(mib <= capacity.total.memoryMib, `${id}: starts, and guests have ${mib} MiB`)
  }

  #wholeMib(id: VmId): number {
    const { desired, monitor } = this.#watched.store.vms.get(id) as VmRecord
    return commitmentOf({ desired, monitor }, this.#watched.capacity.memoryTerms()).memoryMib
  }

  #onWait(id: VmId): void {
    if (this.#queue.includes(id) || !this.#hasLent(id)) return
    this.#queue.push(id)
    this.seen.waits += 1
    this.seen.longest = Math.max(this.seen.longest, this.#queue.length)
  }

  #onReturn(id: VmId): void {
    // A VM that must no longer lend its memory has it back at once.
    const next = this.#queue.find((each) => this.#hasLent(each)) ?? id
    this.#remove(id)
    if (!this.#hasLent(id)) return
    this.seen.returns += 1
    assert.equal(id, next, `${id}: has its memory back before ${next}, which waits for longer`)
  }

  #hasLent(id: VmId): boolean {
    return this.#watched.store.vms.get(id)?.memoryLent === true
  }

  #remove(id: VmId): void {
    const at = this.#queue.indexOf(id)
    if (at >= 0) this.#queue.splice(at, 1)
  }

  /** Forgets a VM that is gone. */
  forget(id: VmId): void {
    this.excuse(id)
    this.#remove(id)
  }

  /** A pass treats a thrown error as a bug of its own, so it is kept for the end. */
  #note(check: () => void): void {
    try {
      check()
    } catch (violation) {
      this.#onViolation(violation)
    }
  }
}
