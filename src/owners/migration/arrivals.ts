import { limits } from '../../config/limits.ts'
import { isComing } from '../../core/migration/arrival.ts'
import { FairPlaces } from '../../lib/fair-places.ts'
import { errorChain } from '../../log/error-chain.ts'
import { ArrivalCourse } from './arrival-course.ts'
import { GiveBacks } from './give-backs.ts'
import { readOffer } from './read-offer.ts'
import type { VmId } from '../../core/ids.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import type { ArrivalContext } from './pulling.ts'

/** Brings VMs from other hosts: a course for each VM that comes. */
export class Arrivals {
  readonly #context: ArrivalContext
  readonly #courses = new Map<VmId, ArrivalCourse>()
  /** Arrivals that are over, and whose unfinished disks could not be removed yet. */
  readonly #left = new Set<ArrivalId>()
  readonly #giveBacks: GiveBacks
  #removing: Promise<void> = Promise.resolve()
  #cancelRetry = (): void => {}
  #stopWatching = (): void => {}
  #isStopped = false

  constructor(options: Omit<ArrivalContext, 'places'>) {
    // No place is reserved: a host that is emptied to this one would wait for nothing.
    const places = new FairPlaces(limits.arrivalsAtOnceMax, { reserves: false })
    this.#context = { ...options, places }
    this.#giveBacks = new GiveBacks(options)
  }

  /**
   * Continues all arrivals that a former daemon began, and removes unfinished disks that no VM waits for. A VM whose
   * record cannot be read waits, and keeps its disk.
   */
  async start(): Promise<void> {
    const { store } = this.#context
    this.#stopWatching = store.onVmChange((id) => queueMicrotask(() => this.#notice(id)))
    // Also one that is under deletion: its course removes the unfinished disk.
    for (const id of store.arrivals.coming()) this.#begin(id)
    const nowMs = this.#context.host.clock.now()
    for (const id of store.arrivals.releasedSince(nowMs - limits.departedFramesMs)) this.#begin(id)
    this.#continueGiveBacks(nowMs - limits.offerMsMax)
    await this.#sweep()
  }

  /** Continues to ask the sources of VMs that were deleted since then. Courses that are under way do so themselves. */
  #continueGiveBacks(sinceMs: number): void {
    const underWay = new Set([...this.#courses.values()].map(({ arrival }) => arrival.id))
    for (const arrival of this.#context.store.giveBacks.since(sinceMs))
      if (!underWay.has(arrival.id)) this.#giveBacks.add(arrival)
  }

  /** Ends everything that is under way; the next daemon continues. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#stopWatching()
    this.#cancelRetry()
    await Promise.all([
      this.#giveBacks.stop(),
      this.#removing,
      ...[...this.#courses.values()].map((course) => course.stop()),
    ])
  }

  /** Looks at the desired state of the host, because it has changed. */
  pokeHost(): void {
    for (const course of this.#courses.values()) course.noticeHost()
  }

  /** See {@link readOffer}. */
  readOffer(offer: Parameters<typeof readOffer>[1]): ReturnType<typeof readOffer> {
    return readOffer(this.#context.host, offer, AbortSignal.timeout(limits.offerReadMs))
  }

  #notice(id: VmId): void {
    if (this.#isStopped) return
    const course = this.#courses.get(id)
    if (course !== undefined) return course.notice()
    const record = this.#context.store.vms.readable(id)
    if (record?.arrival !== undefined && !record.deleting && isComing(record.arrival)) this.#begin(id)
  }

  #begin(id: VmId): void {
    const record = this.#context.store.vms.readable(id)
    const { arrival } = record ?? {}
    if (record === undefined || arrival === undefined) return
    this.#giveBacks.forget(arrival.migrationId)
    const begun = new ArrivalCourse(this.#context, { ...record, arrival })
    this.#courses.set(id, begun)
    begun.begin(() => {
      this.#courses.delete(id)
      if (begun.leavesDisk) {
        this.#left.add(begun.arrival.id)
        this.#removeLater()
      }
      if (begun.owesGuest) this.#giveBacks.add(begun.arrival)
      // Another VM may have the id by now.
      this.#notice(id)
    })
  }

  /** Tries again later to remove the disks that are left. */
  #removeLater(): void {
    this.#cancelRetry()
    if (this.#isStopped || this.#left.size === 0) return
    this.#cancelRetry = this.#context.host.clock.after(limits.roundsRetryMs, () => {
      this.#removing = this.#removeLeft()
    })
  }

  async #removeLeft(): Promise<void> {
    const { host, log } = this.#context
    for (const arrival of this.#left)
      try {
        await host.incomingDisks.remove(arrival)
        this.#left.delete(arrival)
      } catch (error) {
        log.warn({ error: errorChain(error) }, 'unfinished disk of another host not removed')
      }
    this.#removeLater()
  }

  async #sweep(): Promise<void> {
    const { host, store, log } = this.#context
    try {
      // Looked up one by one: a request may take a VM while the disks are listed and removed.
      for (const arrival of await host.incomingDisks.list())
        if (!store.arrivals.isAwaited(arrival)) await host.incomingDisks.remove(arrival)
    } catch (error) {
      log.warn({ error: errorChain(error) }, 'unfinished disks of other hosts not swept')
    }
  }
}
