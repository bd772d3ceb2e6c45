import type { Probe, Unknown } from '../../src/core/world/world.ts'
import type { MonitorOffer, MonitorOffers } from '../../src/core/monitor/choose-monitor.ts'
import type { MonitorKind } from '../../src/core/monitor/monitor-kind.ts'
import type { Sha256 } from '../../src/core/ids.ts'
import { NO_SHARES } from '../../src/core/capacity/ledger.ts'
import type { MemoryTerms, PoolShares } from '../../src/core/capacity/ledger.ts'
import type { Capacity } from '../../src/ports/capacity.ts'

/** A host whose figures a test sets. It starts with room for anything. */
export class FakeCapacity implements Capacity {
  readonly total = { memoryMib: 1e9, diskMib: 1e9, consolePlaces: 1e9 }
  /** Bytes of the pool that are not used by VMs. */
  shares: PoolShares = NO_SHARES
  /** Memory of each monitor, without its guest's. */
  monitor = 0
  readonly ownAddresses = new Set<string>()
  /** Set when the host must not be inspectable. */
  fault: Unknown | undefined
  /** Set when only the pool must not be inspectable. */
  poolFault: Unknown | undefined
  /** Set when the number of consoles that systemd may keep is unknown. */
  placesFault: Unknown | undefined
  /** Set when the pool is visible, but its use by others than VMs is unknown. */
  sharesFault: Unknown | undefined

  allocatable(): { memoryMib: Probe<number>; diskMib: Probe<number>; consolePlaces: Probe<number> } {
    const { memoryMib, diskMib, consolePlaces } = this.total
    return {
      memoryMib: this.fault ?? { known: true, value: memoryMib },
      diskMib: this.fault ?? this.poolFault ?? { known: true, value: diskMib },
      consolePlaces: this.placesFault ?? { known: true, value: consolePlaces },
    }
  }

  readonly imagesMib = new Map<Sha256, number>()

  imageMib(sha256: Sha256): number | undefined {
    return this.imagesMib.get(sha256)
  }

  poolShares(): Probe<PoolShares> {
    return this.fault ?? this.poolFault ?? this.sharesFault ?? { known: true, value: this.shares }
  }

  /** The part of a sleeping VM's memory that stays promised. */
  sleepRatio = 1

  memoryTerms(): MemoryTerms {
    return { monitorMib: (kind, guestMib) => this.monitorMib(kind, guestMib), sleepRatio: this.sleepRatio }
  }

  monitorMib(_kind: MonitorKind, _guestMib: number): number {
    return this.monitor
  }

  /** Set for a kind that the host must not offer. */
  readonly notOffered = new Map<MonitorKind, string>()
  defaultMonitor: MonitorKind = 'qemu'

  monitors(): MonitorOffers {
    const offer = (kind: MonitorKind): MonitorOffer => ({
      isOffered: !this.notOffered.has(kind),
      accelerator: 'kvm',
      because: this.notOffered.get(kind) ?? 'KVM opens',
    })
    const kinds = { qemu: offer('qemu'), firecracker: offer('firecracker') }
    return { kinds, default: this.defaultMonitor, because: 'a test says so' }
  }

  hostAddresses(): Probe<ReadonlySet<string>> {
    return this.fault ?? { known: true, value: this.ownAddresses }
  }
}
