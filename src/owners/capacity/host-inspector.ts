import { limits } from '../../config/limits.ts'
import {
  allocatableDiskMib,
  allocatableMemoryMib,
  heldPlacesMax,
  stagingQuotaMib,
} from '../../core/capacity/ledger.ts'
import { HostFault } from '../../core/errors.ts'
import { err, ok } from '../../lib/result.ts'
import { errorChain, unknownBy } from '../../log/error-chain.ts'
import { SharedLook } from '../../lib/shared-look.ts'
import { mibUp } from '../../lib/byte-units.ts'
import type { Probe } from '../../core/world/world.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { Result } from '../../lib/result.ts'
import type { Log } from '../../log/log.ts'
import type { Capacity } from '../../ports/capacity.ts'
import type { Clock } from '../../ports/clock.ts'
import type { MemoryTerms, MonitorMib, PoolShares } from '../../core/capacity/ledger.ts'
import type { MonitorOffers } from '../../core/monitor/choose-monitor.ts'
import type { Consoles } from '../../ports/consoles.ts'
import type { HostFigures, MemoryFigures, PoolFigures } from '../../ports/host-figures.ts'
import type { Storage } from '../../ports/storage.ts'

/** Reserves that VMs never get, and how far their disks may exceed the pool; see `capacity` in the configuration. */
export type CapacityPolicy = {
  readonly memoryReserveMib: number
  readonly diskReserveMib: number
  readonly diskOvercommit: number
  readonly memorySleepRatio: number
  /** The configured quota; see {@link HostInspector.stagingQuotaMib}. */
  readonly stagingQuotaMib: number
}

/** The result of one look, part by part: a part that could not be inspected is a fault, not a figure. */
export type Look = {
  /** When the look began, by a clock that is never set. */
  readonly beganMs: number
  readonly cpus: Result<number, HostFault>
  readonly memory: Result<MemoryFigures, HostFault>
  readonly pool: Result<PoolFigures, HostFault>
  /** How many console masters systemd may keep. */
  readonly consolePlaces: Result<number, HostFault>
  readonly addresses: Result<ReadonlySet<string>, HostFault>
}

export type ImageSize = { readonly sha256: Sha256; readonly sizeMib: number }

/** Changes that others must hear of at once, in words for the log. */
export type HostChange = 'pool lost' | 'pool found'

export type HostInspectorOptions = {
  readonly figures: HostFigures
  readonly storage: Pick<Storage, 'images'>
  readonly consoles: Pick<Consoles, 'places'>
  /** Memory that a monitor needs besides its guest's, in MiB. */
  readonly monitorMib: MonitorMib
  readonly clock: Clock
  readonly policy: CapacityPolicy
  readonly log: Log
  readonly onChange: (change: HostChange) => void
  /** Called at the beginning of each look. */
  readonly onLook?: () => void
}

/**
 * Keeps the last look at the host for commands, which must not wait for one. A figure that could not be inspected, or
 * is older than `limits.figuresAgeMsMax`, is unknown.
 */
export class HostInspector implements Capacity {
  readonly #options: HostInspectorOptions
  readonly #looks: SharedLook<Look>
  #last: Look | undefined
  #imagesMib: ReadonlyMap<Sha256, number> = new Map()
  #imagesDueMs = 0
  #imagesAreKnown = false
  #poolMib: number | undefined
  /** A setting of the daemon's unit, not a measurement, so it does not become outdated. */
  #consolePlaces: number | undefined
  #cancelTimer = (): void => {}
  #stopped = false

  constructor(options: HostInspectorOptions) {
    this.#options = options
    this.#looks = new SharedLook(() => this.#look())
  }

  /** Begins to look at intervals; resolves after the first look. */
  async start(): Promise<void> {
    await this.look()
    if (this.#stopped) return
    this.#cancelTimer = this.#options.clock.after(limits.figuresEveryMs, () => void this.start())
  }

  stop(): void {
    this.#stopped = true
    this.#cancelTimer()
  }

  /** Looks now; calls during the look share it. Never rejects for a fault of the host. */
  look(): Promise<Look> {
    return this.#looks.take()
  }

  /** Learns the sizes of images soon, because one has come into the pool. */
  noticeImage(): void {
    this.#imagesDueMs = 0
    if (!this.#stopped) void this.look()
  }

  allocatable(): { memoryMib: Probe<number>; diskMib: Probe<number>; consolePlaces: Probe<number> } {
    const last = this.#fresh()
    const consolePlaces = this.#heldPlaces()
    if (!last.known) return { memoryMib: last, diskMib: last, consolePlaces }
    const { memory, pool } = last.value
    return {
      memoryMib: probeOf(memory, (figures) => this.allocatableMemoryMib(figures)),
      diskMib: probeOf(pool, (figures) => this.allocatableDiskMib(figures)),
      consolePlaces,
    }
  }

  poolShares(): Probe<PoolShares> {
    const last = this.#fresh()
    if (!last.known) return last
    const { pool } = last.value
    if (!pool.ok) return unknownBy(pool.error)
    if (!this.#imagesAreKnown) return nothingKnown('the images of the storage pool were not listed yet')
    return { known: true, value: this.poolSharesOf([...this.#imagesMib.values()]) }
  }

  /** Returns what others than VMs take of a pool with images of these sizes. */
  poolSharesOf(imagesMib: readonly number[]): PoolShares {
    const sum = imagesMib.reduce((all, one) => all + one, 0)
    return { imagesMib: sum, stagingMib: this.stagingQuotaMib() }
  }

  memoryTerms(): MemoryTerms {
    const { monitorMib, policy } = this.#options
    return { monitorMib, sleepRatio: policy.memorySleepRatio }
  }

  /** Returns the quota in force, which depends on the size of the pool; as configured until the pool was seen. */
  stagingQuotaMib(): number {
    const { stagingQuotaMib: configured } = this.#options.policy
    return this.#poolMib === undefined ? configured : stagingQuotaMib(configured, this.#poolMib)
  }

  /** Returns what VMs may commit together on a host with these figures. */
  allocatableMemoryMib({ totalMib }: MemoryFigures): number {
    return allocatableMemoryMib(totalMib, this.#options.policy.memoryReserveMib)
  }

  allocatableDiskMib({ totalMib }: PoolFigures): number {
    const { diskReserveMib: reserveMib, diskOvercommit: overcommit } = this.#options.policy
    return allocatableDiskMib(totalMib, { overcommit, reserveMib })
  }

  monitors(): MonitorOffers {
    return this.#options.figures.monitors()
  }

  hostAddresses(): Probe<ReadonlySet<string>> {
    const last = this.#fresh()
    if (!last.known) return last
    return probeOf(last.value.addresses, (addresses) => addresses)
  }

  imageMib(sha256: Sha256): number | undefined {
    return this.#imagesMib.get(sha256)
  }

  #heldPlaces(): Probe<number> {
    if (this.#consolePlaces !== undefined) return { known: true, value: heldPlacesMax(this.#consolePlaces) }
    const places = this.#last?.consolePlaces
    if (places === undefined || places.ok) return nothingKnown('the host was not looked at yet')
    return unknownBy(places.error)
  }

  #fresh(): Probe<Look> {
    const last = this.#last
    if (last === undefined) return nothingKnown('the host was not looked at yet')
    const ageMs = this.#options.clock.monotonicMs() - last.beganMs
    if (ageMs <= limits.figuresAgeMsMax) return { known: true, value: last }
    return nothingKnown(`the last look at the host is ${Math.round(ageMs / 1000)} s old`)
  }

  async #look(): Promise<Look> {
    const { figures, consoles, clock, onLook } = this.#options
    onLook?.()
    const beganMs = clock.monotonicMs()
    const [cpus, memory, pool, addresses, consolePlaces] = await Promise.all([
      settle(figures.cpus()),
      settle(figures.memory()),
      settle(figures.pool()),
      settle(figures.addresses()),
      settle(consoles.places().then(({ total }) => total)),
    ])
    const look = { beganMs, cpus, memory, pool, addresses, consolePlaces }
    if (pool.ok) this.#poolMib = pool.value.totalMib
    if (consolePlaces.ok) this.#consolePlaces = consolePlaces.value
    const before = this.#last
    this.#last = look
    if (pool.ok && beganMs >= this.#imagesDueMs) await this.#learnImages(beganMs)
    this.#notify(before, look)
    return look
  }

  /**
   * Learns the sizes of images. If the pool cannot be read, known sizes stay valid, because a digest has one length.
   */
  async #learnImages(nowMs: number): Promise<void> {
    const dueMs = this.#imagesDueMs
    // Set before the list is read, because an image may come meanwhile.
    this.#imagesDueMs = nowMs + limits.imageSizesEveryMs
    const images = await settle(imageSizes(this.#options.storage))
    if (!images.ok) {
      this.#imagesDueMs = dueMs
      return
    }
    this.#imagesAreKnown = true
    this.#imagesMib = new Map(images.value.map(({ sha256, sizeMib }) => [sha256, sizeMib]))
  }

  /** Reports which figures were lost or are available again since the last look. At first, all count as available. */
  #notify(before: Look | undefined, { memory, pool, addresses }: Look): void {
    this.#logChange('memory', before?.memory.ok ?? true, memory)
    this.#logChange('storage pool', before?.pool.ok ?? true, pool)
    this.#logChange('addresses', before?.addresses.ok ?? true, addresses)
    const { onChange } = this.#options
    if (before !== undefined && before.pool.ok !== pool.ok) onChange(pool.ok ? 'pool found' : 'pool lost')
  }

  #logChange(figures: string, wasKnown: boolean, now: Result<unknown, HostFault>): void {
    const { log } = this.#options
    if (now.ok && !wasKnown) log.info({ figures }, 'host figures available again')
    if (!now.ok && wasKnown)
      log.error({ figures, code: now.error.code, error: errorChain(now.error) }, 'host figures unavailable')
  }
}

/** Lists the images of the pool, each with its length rounded up. Throws HostFault. */
export async function imageSizes(storage: Pick<Storage, 'images'>): Promise<readonly ImageSize[]> {
  const images = await storage.images()
  return images.map(({ sha256, sizeBytes }) => ({ sha256, sizeMib: mibUp(sizeBytes) }))
}

async function settle<T>(look: Promise<T>): Promise<Result<T, HostFault>> {
  try {
    return ok(await look)
  } catch (error) {
    if (error instanceof HostFault) return err(error)
    throw error
  }
}

/** Returns what follows from a part of a look, or why the part is unknown. */
const probeOf = <T, V>(seen: Result<T, HostFault>, valueOf: (value: T) => V): Probe<V> =>
  seen.ok ? { known: true, value: valueOf(seen.value) } : unknownBy(seen.error)

const nothingKnown = (message: string): Probe<never> => ({
  known: false,
  code: 'capacity_unknown',
  retry: 'backoff',
  message,
})
