import { takeConsoleCensus } from './console-census.ts'
import { SharedLook } from './shared-look.ts'
import type { Allocatable } from '../core/capacity/capacity.ts'
import type { HostFault } from '../core/errors.ts'
import type { Result } from '../lib/result.ts'
import type { Clock } from '../ports/clock.ts'
import type { Consoles } from '../ports/consoles.ts'
import type { HostFigures, Machine, MemoryFigures, PoolFigures, PoolImage } from '../ports/host-figures.ts'
import type { Units } from '../ports/units.ts'
import type { Store } from '../store/store.ts'
import type { VmSummary } from '../store/vm-summaries.ts'
import type { Committed } from '../store/vm-table.ts'
import type { ConsoleCensus } from './console-census.ts'
import type { HostInspector } from './host-inspector.ts'

/** This host and daemon, as they are known. */
export type HostNames = {
  readonly id: string
  readonly bootId: string
  readonly version: string
  /** A line of authorized_keys (sshd(8)). */
  readonly sshPublicKey: string
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
  /** `descriptorStoreAvailable`: what is stored outlives a stop of the daemon. */
  readonly consoles: ConsoleCensus & { readonly descriptorStoreAvailable: boolean }
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

  async #census(): Promise<HostView['consoles']> {
    const descriptorStoreAvailable = await this.#options.isDescriptorStoreAvailable()
    return { ...(await takeConsoleCensus(this.#options)), descriptorStoreAvailable }
  }
}

function orThrow<T>(seen: Result<T, HostFault>): T {
  if (seen.ok) return seen.value
  throw seen.error
}
