import { limits } from '../../config/limits.ts'
import { leftGuests, nextToRest } from '../../core/maintenance/drain.ts'
import { given } from '../../lib/given.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { LeftGuest } from '../../core/maintenance/drain.ts'
import type { Drain } from '../../core/maintenance/maintenance.ts'
import type { OperationId, VmId } from '../../core/ids.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Log } from '../../log/log.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Store } from '../../store/store.ts'

export type DrainerOptions = {
  readonly store: Store
  readonly clock: Clock
  readonly bootId: string
  /** Asks for a pass of a VM. */
  readonly poke: (id: VmId, reason: string) => void
  /** Accepts a stop of a guest that leaves its desired power as it is. */
  readonly stop: (id: VmId, graceSeconds: number) => void
  readonly log: Log
}

/** Gives the guests of a drained host their turns to come to rest. */
export class Drainer {
  readonly #options: DrainerOptions
  #timer: { readonly dueAtMs: number; readonly cancel: () => void } | undefined
  #isRunning = false

  constructor(options: DrainerOptions) {
    this.#options = options
    options.store.onVmChange(() => this.#lookIn(limits.drainLookMs))
  }

  /** Continues what an earlier daemon began. */
  start(): void {
    this.#isRunning = true
    this.poke()
  }

  stop(): void {
    this.#isRunning = false
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Looks soon, because the state of the host has changed. */
  poke(): void {
    this.#lookIn(limits.drainLookMs)
  }

  /** Looks once for all changes of that time, however many there are. */
  #lookIn(ms: number): void {
    const { store, clock } = this.#options
    if (!this.#isRunning || store.maintenance.get().state !== 'drained') return
    const dueAtMs = clock.monotonicMs() + ms
    if (this.#timer !== undefined && this.#timer.dueAtMs <= dueAtMs) return
    this.#timer?.cancel()
    this.#timer = { dueAtMs, cancel: clock.after(ms, () => this.#look()) }
  }

  #look(): void {
    this.#timer = undefined
    const { store, log } = this.#options
    const { drain, operationId } = store.maintenance.get()
    if (!this.#isRunning || drain === undefined) return
    const of = given({ operation_id: operationId })
    try {
      this.#giveTurns(drain, of)
    } catch (error) {
      log.warn({ ...of, error: errorChain(error) }, 'guests of a drained host not given their turns')
    }
    this.#lookIn(limits.drainRecheckMs)
  }

  #giveTurns(drain: Drain, of: LineFields): void {
    const { store, clock, bootId, log } = this.#options
    const { records, unreadable } = recordsIn(store)
    const nowMs = clock.now()
    for (const id of nextToRest(records, { drain, bootId })) {
      log.info({ ...of, vm_id: id, guests: drain.guests }, 'guest comes to rest: the host is drained')
      this.#bringToRest(id, drain, nowMs)
    }
    const hasNoneLeft = leftGuests(records, { drain, bootId }).length === 0
    if (hasNoneLeft) {
      for (const id of unreadable)
        log.warn({ ...of, vm_id: id }, 'host not drained: the record cannot be read, so a guest may be left')
    }
    this.#noteEmpty(hasNoneLeft && unreadable.length === 0, nowMs)
  }

  #bringToRest(id: VmId, drain: Drain, nowMs: number): void {
    const { store, poke, stop } = this.#options
    if (drain.guests === 'stop') return stop(id, drain.graceSeconds)
    // The guest is wanted again after the maintenance.
    store.vms.requestWake(id, { reason: 'maintenance', atMs: nowMs })
    poke(id, 'the host is drained')
  }

  #noteEmpty(isEmpty: boolean, nowMs: number): void {
    const { maintenance } = this.#options.store
    const wasEmpty = maintenance.get().emptySinceMs !== undefined
    if (isEmpty !== wasEmpty) maintenance.noteEmpty(isEmpty, nowMs)
  }
}

/** Fields of each line that follows from a drain. */
type LineFields = { readonly operation_id?: OperationId }

/** A guest that a drained host still has, and what its record shows. */
export type LeftVm = LeftGuest & { readonly record: VmRecord }

/**
 * Lists the guests that are left; none if the host is not to be drained. A VM whose record cannot be read may have one,
 * but is not listed.
 */
export function vmsLeft({ store, bootId }: Pick<DrainerOptions, 'store' | 'bootId'>): readonly LeftVm[] {
  const { drain } = store.maintenance.get()
  if (drain === undefined) return []
  const { records } = recordsIn(store)
  const byId = new Map(records.map((record) => [record.id, record]))
  return leftGuests(records, { drain, bootId }).flatMap((left) => {
    const record = byId.get(left.id)
    return record === undefined ? [] : [{ ...left, record }]
  })
}

function recordsIn({ vms }: Pick<Store, 'vms'>): Records {
  const all = vms.ids().map((id) => ({ id, record: vms.readable(id) }))
  return {
    records: all.flatMap(({ record }) => record ?? []),
    unreadable: all.filter(({ record }) => record === undefined).map(({ id }) => id),
  }
}

type Records = { readonly records: readonly VmRecord[]; readonly unreadable: readonly VmId[] }
