import { limits } from '../config/limits.ts'
import { commitmentOf, heldMemoryMib, mayLend } from '../core/capacity/ledger.ts'
import { HELD, judgeMemory } from '../core/capacity/memory-standing.ts'
import { isGone } from '../core/world/world.ts'
import { StateUnwritable } from '../store/database/transactions.ts'
import type { MemoryStanding } from '../core/capacity/memory-standing.ts'
import type { VmId } from '../core/ids.ts'
import type { ObservedState, VmRecord } from '../core/vm/record.ts'
import type { World } from '../core/world/world.ts'
import type { Capacity } from '../ports/capacity.ts'
import type { Clock } from '../ports/clock.ts'
import type { Store } from '../store/store.ts'

/** The part of a host's figures that decides about memory. */
export type MemoryPromises = Pick<Capacity, 'allocatable' | 'memoryTerms'>

/**
 * Lends the memory of VMs that sleep, and gives it back in order. Nothing is lent if the whole memory of sleeping VMs
 * stays promised.
 */
export class MemoryRoom {
  readonly #store: Store
  readonly #capacity: () => MemoryPromises
  readonly #clock: Clock
  readonly #call: (id: VmId, reason: string) => void

  /** @param call asks for a pass of this VM */
  constructor(
    { store, capacity, clock }: { store: Store; capacity: () => MemoryPromises; clock: Clock },
    call: (id: VmId, reason: string) => void,
  ) {
    this.#store = store
    this.#capacity = capacity
    this.#clock = clock
    this.#call = call
  }

  /** Whether a VM waits for memory. */
  get isShort(): boolean {
    return this.#lends && this.#store.memoryLoans.queue().length > 0
  }

  /** Returns whether the VM may use its memory now. */
  standing(record: VmRecord): MemoryStanding {
    if (record.memoryLent !== true || !this.#lends || !mayLend(record.desired)) return HELD
    const { desired, monitor } = record
    const queue = this.#store.memoryLoans.queue()
    const place = queue.indexOf(record.id)
    const terms = this.#capacity().memoryTerms()
    return judgeMemory({
      needMib: commitmentOf({ desired, monitor }, terms).memoryMib,
      heldMib: heldMemoryMib(this.#store.vms.recorded(), terms),
      allocatable: this.#capacity().allocatable().memoryMib,
      ahead: place === -1 ? queue.length : place,
    })
  }

  /** Lends the memory of a VM that sleeps, or that is stopped while another waits for memory. */
  lend(record: VmRecord, state: ObservedState): void {
    if (!this.isToLend(record, state)) return
    this.#store.memoryLoans.lend(record.id)
    this.callNext()
  }

  /** Returns whether a VM in this state has still to lend its memory. */
  isToLend(record: VmRecord, state: ObservedState): boolean {
    if (!this.#canLend(record)) return false
    return state === 'sleeping' || (state === 'stopped' && this.isShort)
  }

  /**
   * Lends the memory of a VM whose wake failed before its unit ran, if another VM waits for memory. Returns the record
   * to plan with. While that cannot be written, the VM keeps its memory.
   */
  lendAfterFailedWake(record: VmRecord, { unit }: Pick<World, 'unit'>): VmRecord {
    const hasFailed = record.wake !== undefined && record.observed.fault !== undefined
    const isOver = unit.known && isGone(unit.value)
    if (!hasFailed || !isOver || !this.#canLend(record) || !this.isShort) return record
    return this.#ifWritable(() => this.#store.memoryLoans.lend(record.id))
      ? { ...record, memoryLent: true }
      : record
  }

  /** Gives a VM its memory back; returns whether it has it now. */
  take(id: VmId): boolean {
    const record = this.#store.vms.get(id)
    if (record === undefined) return false
    const { kind } = this.standing(record)
    if (kind === 'free') this.endLoan(id)
    return kind === 'held' || kind === 'free'
  }

  /** Notes that a VM has its memory. */
  endLoan(id: VmId): void {
    this.#store.memoryLoans.end(id)
    this.callNext()
  }

  /** Puts a VM into the queue, and asks others to make room: stopped VMs at once, and idle ones by an early sleep. */
  joinQueue({ id, memoryWantedAtMs }: VmRecord): void {
    const nowMs = this.#clock.now()
    if (memoryWantedAtMs === undefined) this.#store.memoryLoans.want(id, nowMs)
    if (this.#store.memoryLoans.queue()[0] !== id) return
    for (const idle of this.#store.memoryLoans.idlest(limits.earlySleepsMax, nowMs))
      this.#call(idle, 'another VM waits for memory')
  }

  /**
   * Takes a VM out of the queue: it does not want its memory, or something else keeps it from starting. While that
   * cannot be written, it keeps its place.
   */
  leaveQueue({ id, memoryWantedAtMs }: VmRecord): void {
    if (memoryWantedAtMs !== undefined) this.leaveQueueUnread(id)
  }

  /** Takes a VM out of the queue whose record cannot be read. While that cannot be written, it keeps its place. */
  leaveQueueUnread(id: VmId): void {
    this.#ifWritable(() => this.#store.memoryLoans.leave(id))
  }

  /** Writes something that may make room for the next VM. Returns whether it could be written. */
  #ifWritable(write: () => void): boolean {
    try {
      write()
      return true
    } catch (error) {
      if (!(error instanceof StateUnwritable)) throw error
      return false
    } finally {
      this.callNext()
    }
  }

  /** Calls the VM that is the next to have its memory back. */
  callNext(): void {
    if (!this.#lends) return
    const [next] = this.#store.memoryLoans.queue()
    if (next !== undefined) this.#call(next, 'memory may be free')
  }

  #canLend({ memoryLent, desired }: VmRecord): boolean {
    return memoryLent !== true && this.#lends && mayLend(desired)
  }

  get #lends(): boolean {
    return this.#capacity().memoryTerms().sleepRatio < 1
  }
}
