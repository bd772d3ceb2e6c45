import { limits } from '../../config/limits.ts'
import { heldMemoryMib, heldPlacesMax, ledgerOf } from '../../core/capacity/ledger.ts'
import { residentMemory } from '../../core/capacity/resident.ts'
import { HostFault } from '../../core/errors.ts'
import { takeConsoleCensus } from '../console/console-census.ts'
import { given } from '../../lib/given.ts'
import { SharedLook } from '../../lib/shared-look.ts'
import type { Commitment, Ledger } from '../../core/capacity/ledger.ts'
import type { Resident, ResidentMemory } from '../../core/capacity/resident.ts'
import type { VmId } from '../../core/ids.ts'
import { warnOfFault } from '../../log/log.ts'
import type { Log } from '../../log/log.ts'
import type { SnapshotRecord } from '../../core/snapshots/record.ts'
import type { SnapshotTally } from '../../core/snapshots/work.ts'
import type { Result } from '../../lib/result.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Consoles } from '../../ports/consoles.ts'
import type { HostFigures, Machine, MemoryFigures, PoolFigures } from '../../ports/host-figures.ts'
import type { Staging } from '../../ports/staging.ts'
import type { Storage } from '../../ports/storage.ts'
import type { Units } from '../../ports/units.ts'
import type { ImageUse } from '../../store/images/image-table.ts'
import type { Store } from '../../store/store.ts'
import type { VmSummary } from '../../core/vm/record.ts'
import type { ConsoleCensus } from '../console/console-census.ts'
import { imageSizes } from './host-inspector.ts'
import { readStagingUse } from './staging-use.ts'
import type { HostInspector, ImageSize } from './host-inspector.ts'
import type { StagingUse } from './staging-use.ts'

/** Names and versions of this host and daemon. */
export type HostNames = {
  readonly id: string
  readonly bootId: string
  readonly version: string
  /** A line of authorized_keys (sshd(8)). */
  readonly sshPublicKey: string
}

/** A view of the whole host at one time. */
export type HostView = {
  readonly host: HostNames & { readonly machine: Machine; readonly nowMs: number }
  readonly cpus: number
  readonly memory: MemoryFigures
  readonly pool: PoolFigures
  readonly committed: Ledger & { readonly cpuMillicores: number }
  /** The most that all VMs together may commit. */
  readonly allocatable: Commitment
  /** `heldMib`: the memory of all VMs but those that have lent theirs. */
  readonly memoryOfSleepers: {
    readonly sleepRatio: number
    readonly heldMib: number
    readonly waitingVms: number
  }
  /** Memory of the VMs that run; absent if it could not be measured. At most `limits.residentAgeMsMax` old. */
  readonly resident?: ResidentMemory
  readonly vms: readonly VmSummary[]
  readonly images: readonly (ImageSize & { readonly use: ImageUse })[]
  /** Includes a tally for snapshots that are not completed. Most are completed, and have nothing open. */
  readonly snapshots: readonly { readonly record: SnapshotRecord; readonly tally?: SnapshotTally }[]
  readonly staging: StagingUse & { readonly quotaMib: number }
  /** `descriptorStoreAvailable`: whether stored descriptors survive a stop of the daemon. */
  readonly consoles: ConsoleCensus & {
    readonly descriptorStoreAvailable: boolean
    readonly placesTotal: number
    readonly placesFree: number
  }
}

export type HostReportOptions = {
  readonly names: HostNames
  readonly inspector: HostInspector
  readonly figures: HostFigures
  readonly storage: Pick<Storage, 'images'>
  readonly units: Pick<Units, 'active' | 'resident'>
  readonly consoles: Pick<Consoles, 'stored' | 'places'>
  readonly staging: Pick<Staging, 'list'>
  /** Returns whether stored descriptors survive a stop of the daemon. Throws HostFault. */
  readonly isDescriptorStoreAvailable: () => Promise<boolean>
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
}

/** Reports on the host from a new look; requests at the same time share it. */
export class HostReport {
  readonly #options: HostReportOptions
  readonly #views = new SharedLook(() => this.#view())
  #summarized: { readonly revision: number; readonly vms: readonly VmSummary[] } | undefined
  #measuring: Promise<void> | undefined
  #measured: { readonly atMs: number; readonly memory: ReadonlyMap<VmId, Resident> } | undefined

  constructor(options: HostReportOptions) {
    this.#options = options
  }

  /** Throws the HostFault of what could not be inspected: readers would not notice a gap in a report. */
  take(): Promise<HostView> {
    return this.#views.take()
  }

  async #view(): Promise<HostView> {
    const { names, inspector, figures, storage, store, clock } = this.#options
    const look = await inspector.look()
    const [pool, memory, cpus] = [orThrow(look.pool), orThrow(look.memory), orThrow(look.cpus)]
    const [machine, images, staging, consoles, measured] = await Promise.all([
      figures.machine(),
      imageSizes(storage),
      this.#staging(),
      this.#census(),
      this.#resident(),
    ])
    // From here on, everything runs in one turn of the event loop, so that the figures of the store belong together.
    const uses = store.images.uses()
    const recorded = store.vms.recorded()
    const terms = inspector.memoryTerms()
    const vms = this.#summaries()
    const resident = measured && residentMemory(vms, measured, terms.monitorMib)
    return {
      host: { ...names, machine, nowMs: clock.now() },
      cpus,
      memory,
      pool,
      committed: {
        ...ledgerOf(recorded, inspector.poolSharesOf(images.map(({ sizeMib }) => sizeMib)), terms),
        cpuMillicores: recorded.cpuMillicores,
      },
      allocatable: {
        memoryMib: inspector.allocatableMemoryMib(memory),
        diskMib: inspector.allocatableDiskMib(pool),
        consolePlaces: heldPlacesMax(consoles.placesTotal),
      },
      memoryOfSleepers: {
        sleepRatio: terms.sleepRatio,
        heldMib: heldMemoryMib(recorded, terms),
        waitingVms: store.memoryLoans.queue().length,
      },
      ...given({ resident }),
      vms,
      images: images.map((image) => ({ ...image, use: uses.get(image.sha256) ?? { count: 0 } })),
      snapshots: this.#snapshots(),
      staging,
      consoles,
    }
  }

  /** Returns the summaries of all VMs, which are read again after each change that a reader can see. */
  #summaries(): readonly VmSummary[] {
    const { events, vms } = this.#options.store
    const revision = events.newest
    if (this.#summarized?.revision !== revision) this.#summarized = { revision, vms: vms.summaries({}) }
    return this.#summarized.vms
  }

  #snapshots(): HostView['snapshots'] {
    const { snapshots } = this.#options.store
    const records = snapshots.list({ limit: limits.snapshotsMax })
    return records.map((record) =>
      record.stage === 'completed' ? { record } : { record, tally: snapshots.tally(record) },
    )
  }

  async #staging(): Promise<HostView['staging']> {
    const use = await readStagingUse(this.#options)
    return { ...use, quotaMib: this.#options.inspector.stagingQuotaMib() }
  }

  /**
   * Returns the memory of the VMs that run. It takes two reads for each of them, so a report waits for it only if the
   * last measurement is too old. Unlike the other figures it may be unknown,
   * because nothing is promised on its strength.
   */
  async #resident(): Promise<ReadonlyMap<VmId, Resident> | undefined> {
    if (this.#measuredWithin(limits.residentRenewMs) === undefined)
      this.#measuring ??= this.#measure().finally(() => {
        this.#measuring = undefined
      })
    const known = this.#measuredWithin(limits.residentAgeMsMax)
    if (known !== undefined) return known
    await this.#measuring
    return this.#measuredWithin(limits.residentAgeMsMax)
  }

  #measuredWithin(ageMs: number): ReadonlyMap<VmId, Resident> | undefined {
    const nowMs = this.#options.clock.monotonicMs()
    return this.#measured !== undefined && nowMs - this.#measured.atMs < ageMs
      ? this.#measured.memory
      : undefined
  }

  async #measure(): Promise<void> {
    const { units, clock, log } = this.#options
    const atMs = clock.monotonicMs()
    try {
      this.#measured = { atMs, memory: await units.resident(await units.active()) }
    } catch (error) {
      warnOfFault(log, error, 'memory of running VMs unknown')
    }
  }

  async #census(): Promise<HostView['consoles']> {
    const descriptorStoreAvailable = await this.#options.isDescriptorStoreAvailable()
    const census = await takeConsoleCensus(this.#options)
    const { total: placesTotal, free: placesFree } = await this.#options.consoles.places()
    return { ...census, descriptorStoreAvailable, placesTotal, placesFree }
  }
}

function orThrow<T>(seen: Result<T, HostFault>): T {
  if (seen.ok) return seen.value
  throw seen.error
}
