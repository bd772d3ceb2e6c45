import { SharedLook } from './shared-look.ts'
import type { Allocatable } from '../core/capacity/capacity.ts'
import type { HostFault } from '../core/errors.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { Result } from '../lib/result.ts'
import type { Clock } from '../ports/clock.ts'
import type { Consoles } from '../ports/consoles.ts'
import type { HostFigures, Machine, MemoryFigures, PoolFigures, PoolImage } from '../ports/host-figures.ts'
import type { Units } from '../ports/units.ts'
import type { Store } from '../store/store.ts'
import type { VmSummary } from '../store/vm-summaries.ts'
import type { Committed } from '../store/vm-table.ts'
import type { HostInspector } from './host-inspector.ts'

/** This host and daemon, as they are called. */
export type HostNames = { readonly id: string; readonly bootId: string; readonly version: string }

/** How far running VMs are kept from a hang-up when the daemon ends. */
export type ConsoleCensus = {
  readonly runningUnits: number
  /** Running VMs whose console master is stored with systemd, and those where it is not. */
  readonly protected: number
  readonly unprotected: readonly VmId[]
  readonly descriptorStoreAvailable: boolean
}

/** All of this host at one time. */
export type HostView = {
  readonly host: HostNames & { readonly machine: Machine; readonly nowMs: number }
  readonly cpus: number
  readonly memory: MemoryFigures
  readonly pool: PoolFigures
  readonly committed: Committed
  readonly allocatable: Allocatable
  readonly vms: readonly VmSummary[]
  readonly images: readonly (PoolImage & { readonly inUse: boolean })[]
  readonly consoles: ConsoleCensus
}

export type HostReportOptions = {
  readonly names: HostNames
  readonly inspector: HostInspector
  readonly figures: HostFigures
  readonly units: Pick<Units, 'active'>
  readonly consoles: Pick<Consoles, 'stored'>
  /** Whether what is stored outlives a stop of the daemon. Throws HostFault. */
  readonly isDescriptorStoreAvailable: () => Promise<boolean>
  readonly store: Store
  readonly clock: Clock
}

/** Reports on the host for whoever asks, from a fresh look; those who ask at once share it. */
export class HostReport {
  readonly #options: HostReportOptions
  readonly #views = new SharedLook(() => this.#view())

  constructor(options: HostReportOptions) {
    this.#options = options
  }

  /** Throws the HostFault of what could not be inspected: a report with a hole in it would be read as one without. */
  take(): Promise<HostView> {
    return this.#views.take()
  }

  async #view(): Promise<HostView> {
    const { names, inspector, figures, store, clock } = this.#options
    const look = await inspector.look()
    const [pool, memory, cpus] = [orThrow(look.pool), orThrow(look.memory), orThrow(look.cpus)]
    const [machine, images, consoles] = await Promise.all([
      figures.machine(),
      figures.images(),
      this.#census(),
    ])
    // From here on in one turn of the event loop, so that what is told of the store belongs together.
    const inUse = store.imagesInUse()
    return {
      host: { ...names, machine, nowMs: clock.now() },
      cpus,
      memory,
      pool,
      committed: store.vms.committed(),
      allocatable: {
        memoryMib: inspector.allocatableMemoryMib(memory),
        diskMib: inspector.allocatableDiskMib(pool),
      },
      vms: store.summaries(),
      images: images.map((image) => ({ ...image, inUse: inUse.has(image.sha256) })),
      consoles,
    }
  }

  async #census(): Promise<ConsoleCensus> {
    const { units, consoles, isDescriptorStoreAvailable } = this.#options
    const descriptorStoreAvailable = await isDescriptorStoreAvailable()
    // In this order: a console is stored before its unit starts, and goes after that has stopped.
    const before = await units.active()
    const stored = new Set(await consoles.stored())
    const isStored = (id: VmId): boolean => stored.has(id)
    const after = before.every(isStored) ? before : await units.active()
    const running = after.filter((id) => before.includes(id))
    const unprotected = running.filter((id) => !isStored(id)).toSorted()
    return {
      runningUnits: running.length,
      protected: running.length - unprotected.length,
      unprotected,
      descriptorStoreAvailable,
    }
  }
}

function orThrow<T>(seen: Result<T, HostFault>): T {
  if (seen.ok) return seen.value
  throw seen.error
}
