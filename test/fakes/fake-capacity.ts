import type { Probe, Unknown } from '../../src/core/plan/world.ts'
import type { Sha256 } from '../../src/core/vm/ids.ts'
import type { PoolShares } from '../../src/core/capacity/ledger.ts'
import type { Capacity } from '../../src/ports/capacity.ts'

/** A host whose figures a test sets. It starts out with room for anything. */
export class FakeCapacity implements Capacity {
  readonly total = { memoryMib: 1e9, diskMib: 1e9, consolePlaces: 1e9 }
  /** What others than VMs take of the pool. */
  shares: PoolShares = { imagesMib: 0, stagingMib: 0 }
  /** Memory of each monitor besides its guest's. */
  monitor = 0
  vcpus = 32
  readonly ownAddresses = new Set<string>()
  /** Set where the host shall not be inspectable. */
  fault: Unknown | undefined
  /** Set where the pool alone shall not be. */
  poolFault: Unknown | undefined
  /** Set when it is not known how many consoles systemd may keep. */
  placesFault: Unknown | undefined
  /** Set when the pool is in sight, and what others than VMs take of it is not known. */
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

  monitorMib(): number {
    return this.monitor
  }

  vcpusMax(): number {
    return this.vcpus
  }

  isOwnAddress(address: string): Probe<boolean> {
    return this.fault ?? { known: true, value: this.ownAddresses.has(address) }
  }
}
