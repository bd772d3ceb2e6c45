import { isDeepStrictEqual } from 'node:util'
import { afterLook, nextLookMs } from '../../core/guest/guest-seen.ts'
import { inLogContext, warnOfFault } from '../../log/log.ts'
import { limits } from '../../config/limits.ts'
import type { GuestSeen } from '../../core/guest/guest-seen.ts'
import type { VmId } from '../../core/ids.ts'
import type { ObservedState, VmRecord } from '../../core/vm/record.ts'
import type { Log } from '../../log/log.ts'
import type { Host } from '../../ports/host.ts'
import type { Store } from '../../store/store.ts'

export type GuestLooksOptions = {
  readonly store: Pick<Store, 'vms' | 'onVmChange'>
  readonly host: Pick<Host, 'monitors' | 'clock'>
  readonly log: Log
}

/** A guest that runs, and the looks into it by this daemon. */
type Watched = { looks: number; misses: number; cancelTimer: () => void }

/** States in which the guest is still the one that was looked at. */
const SAME_GUEST: ReadonlySet<ObservedState> = new Set<ObservedState>([
  'running',
  'pausing',
  'paused',
  'sleeping',
  'waking',
])

/** Looks into running guests at intervals, and records what it finds. */
export class GuestLooks {
  readonly #options: GuestLooksOptions
  readonly #watched = new Map<VmId, Watched>()
  #stopWatching = (): void => {}

  constructor(options: GuestLooksOptions) {
    this.#options = options
  }

  /** Begins to look into all guests that run now or later. */
  start(): void {
    const { store } = this.#options
    this.#stopWatching = store.onVmChange((id) => queueMicrotask(() => this.#notice(id)))
    for (const { id } of store.vms.all()) this.#notice(id)
  }

  stop(): void {
    this.#stopWatching()
    for (const { cancelTimer } of this.#watched.values()) cancelTimer()
    this.#watched.clear()
  }

  #notice(id: VmId): void {
    const record = this.#options.store.vms.get(id)
    if (record?.observed.state === 'running') return this.#watch(id)
    this.#watched.get(id)?.cancelTimer()
    this.#watched.delete(id)
    if (record?.guest !== undefined && !SAME_GUEST.has(record.observed.state)) this.#record(record, {})
  }

  #watch(id: VmId): void {
    if (this.#watched.has(id)) return
    const watched: Watched = { looks: 0, misses: 0, cancelTimer: () => {} }
    this.#watched.set(id, watched)
    this.#lookAfter(limits.guestLookMsMin, id, watched)
  }

  #lookAfter(ms: number, id: VmId, watched: Watched): void {
    watched.cancelTimer = this.#options.host.clock.after(ms, () => {
      void inLogContext({ vm_id: id }, () => this.#look(id, watched))
    })
  }

  async #look(id: VmId, watched: Watched): Promise<void> {
    const { store, host } = this.#options
    const agent = await this.#seesAgent(id)
    // The guest may have ended meanwhile, or fallen asleep.
    if (this.#watched.get(id) !== watched) return
    const record = store.vms.get(id)
    if (record === undefined) return
    watched.looks += 1
    watched.misses = agent === false ? watched.misses + 1 : 0
    const seen = afterLook(record.guest ?? {}, { agent, misses: watched.misses }, host.clock.now())
    this.#record(record, seen)
    this.#lookAfter(nextLookMs(seen, watched), id, watched)
  }

  async #seesAgent(id: VmId): Promise<boolean | undefined> {
    const { store, host, log } = this.#options
    try {
      const record = store.vms.get(id)
      return record && (await host.monitors[record.monitor].agentListens(id))
    } catch (error) {
      log.debug({ error }, 'look into a guest failed; tried again later')
      return undefined
    }
  }

  #record({ id, guest = {} }: VmRecord, seen: GuestSeen): void {
    const { store, host, log } = this.#options
    if (isDeepStrictEqual(guest, seen)) return
    try {
      store.vms.setGuestSeen(id, seen, host.clock.now())
    } catch (error) {
      warnOfFault(log, error, 'finding about a guest not recorded; tried again at the next look')
    }
  }
}
