import { isDeepStrictEqual } from 'node:util'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  afterLook,
  firstLookMs,
  groupedWaitMs,
  isSameCheck,
  looksIn,
  missesAfter,
  nextLookMs,
} from '../../core/guest/guest-seen.ts'
import { guestAddress } from '../../core/desired.ts'
import { given } from '../../lib/given.ts'
import { partsOf } from '../../lib/parts.ts'
import { inLogContext, warnOfFault } from '../../log/log.ts'
import { limits } from '../../config/limits.ts'
import type { GuestLook, GuestSeen, Misses } from '../../core/guest/guest-seen.ts'
import type { ReadinessCheck } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { ObservedState, VmRecord } from '../../core/vm/record.ts'
import type { Log } from '../../log/log.ts'
import type { GuestProbes } from '../../ports/guest-probes.ts'
import type { Host } from '../../ports/host.ts'
import type { Store } from '../../store/store.ts'

export type GuestLooksOptions = {
  readonly store: Pick<Store, 'onVmChange'> & {
    readonly vms: Pick<Store['vms'], 'get' | 'states' | 'setGuestSeen'>
  }
  readonly host: Pick<Host, 'monitors' | 'clock'>
  readonly probes: GuestProbes
  readonly log: Log
}

/** A guest that runs, and the looks into it. */
type Watched = {
  readonly monitor: VmRecord['monitor']
  /** The check that was desired when these looks began. */
  readonly check: ReadinessCheck | undefined
  /**
   * The findings and the address on record. A look that finds the same reads no record: there may be a thousand guests.
   */
  shown: Shown
  /** The looks since it runs or since its check changed, also those of an earlier daemon. */
  looks: number
  misses: Misses
  cancelTimer: () => void
}

type Shown = { readonly guest: GuestSeen; readonly address: string | undefined }

const shownBy = ({ guest = {}, desired: { network } }: VmRecord): Shown => ({
  guest,
  address: guestAddress(network),
})

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
  #isRunning = false
  #stopWatching = (): void => {}

  constructor(options: GuestLooksOptions) {
    this.#options = options
  }

  /** Begins to look into all guests that run now or later. */
  start(): void {
    const { store } = this.#options
    this.#isRunning = true
    this.#stopWatching = store.onVmChange((id) => queueMicrotask(() => this.#noticeRecord(id)))
    void this.#noticeAll()
  }

  stop(): void {
    this.#isRunning = false
    this.#stopWatching()
    for (const { cancelTimer } of this.#watched.values()) cancelTimer()
    this.#watched.clear()
  }

  /** Notices guests that run, and those that ended while no daemon ran. A thousand records take many turns. */
  async #noticeAll(): Promise<void> {
    const { vms } = this.#options.store
    const due = [...vms.states()].filter(([, state]) => state === 'running' || !SAME_GUEST.has(state))
    for (const some of partsOf(due, limits.recordsPerTurn)) {
      if (!this.#isRunning) return
      for (const [id] of some) this.#noticeRecord(id)
      await nextTurn()
    }
  }

  /** Notices a VM as its record is now. One that cannot be read is left to the pass of the VM, which reports it. */
  #noticeRecord(id: VmId): void {
    const { store, log } = this.#options
    let record: VmRecord | undefined
    try {
      record = store.vms.get(id)
    } catch (error) {
      log.debug({ vm_id: id, error }, 'guest not looked into: its record cannot be read')
      return
    }
    this.#notice(id, record)
  }

  #notice(id: VmId, record: VmRecord | undefined): void {
    if (record?.observed.state === 'running') return this.#watch(record)
    this.#watched.get(id)?.cancelTimer()
    this.#watched.delete(id)
    if (record?.guest !== undefined && !SAME_GUEST.has(record.observed.state)) this.#record(id, {})
  }

  #watch(record: VmRecord): void {
    const { id, monitor, desired, observed } = record
    const { readiness: check } = desired
    const shown = shownBy(record)
    const known = this.#watched.get(id)
    if (known !== undefined && isSameCheck(known.check, check)) {
      known.shown = shown
      return
    }
    known?.cancelTimer()
    const { clock } = this.#options.host
    const looks = known === undefined ? looksIn(clock.now() - observed.sinceMs) : 0
    const misses = { agent: 0, check: 0 }
    const watched: Watched = { monitor, check, shown, looks, misses, cancelTimer: () => {} }
    this.#watched.set(id, watched)
    this.#lookAfter(firstLookMs(shown.guest, check, { looks, random: clock.random() }), id, watched)
  }

  #lookAfter(ms: number, id: VmId, watched: Watched): void {
    watched.cancelTimer = this.#options.host.clock.after(ms, () => {
      inLogContext({ vm_id: id }, () => this.#look(id, watched)).catch((error: unknown) => {
        this.#options.log.error({ vm_id: id, error }, 'look into a guest failed: internal error')
        if (this.#watched.get(id) === watched) this.#lookAfter(limits.guestLookMsMax, id, watched)
      })
    })
  }

  async #look(id: VmId, watched: Watched): Promise<void> {
    const { clock } = this.#options.host
    const [agent, check] = await Promise.all([this.#seesAgent(id, watched), this.#asks(watched)])
    // Meanwhile the guest may have ended or fallen asleep, or another check may be desired.
    if (this.#watched.get(id) !== watched) return
    const look: GuestLook = { agent, ...given({ check }) }
    watched.looks += 1
    watched.misses = missesAfter(watched.misses, look)
    const { guest } = watched.shown
    const seen = afterLook(guest, look, { misses: watched.misses, nowMs: clock.now() })
    if (!isDeepStrictEqual(guest, seen)) this.#record(id, seen)
    const waitMs = nextLookMs(seen, watched.check, watched)
    this.#lookAfter(groupedWaitMs(waitMs, clock.monotonicMs()), id, watched)
  }

  async #seesAgent(id: VmId, { monitor }: Watched): Promise<boolean | undefined> {
    const { host, log } = this.#options
    try {
      return await host.monitors[monitor].agentListens(id)
    } catch (error) {
      log.debug({ error }, 'look into a guest failed; tried again later')
      return undefined
    }
  }

  async #asks({ check: by, shown: { address } }: Watched): Promise<GuestLook['check']> {
    if (by === undefined) return undefined
    if (address === undefined) return { by, because: 'the VM has no address' }
    return { by, because: await this.#options.probes.probe({ address, check: by }) }
  }

  #record(id: VmId, seen: GuestSeen): void {
    const { store, host, log } = this.#options
    try {
      store.vms.setGuestSeen(id, seen, host.clock.now())
    } catch (error) {
      warnOfFault(log, error, 'finding about a guest not recorded; tried again at the next look')
    }
  }
}
