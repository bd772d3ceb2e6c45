import type { Probe, Unknown } from '../../src/core/plan/world.ts'
import type { Sha256 } from '../../src/core/vm/ids.ts'
import type { Capacity } from '../../src/ports/capacity.ts'

/** A host whose figures a test sets. It starts out with room for anything. */
export class FakeCapacity implements Capacity {
  readonly total: { memoryMib: number; diskMib: number } = { memoryMib: 1e9, diskMib: 1e9 }
  readonly ownAddresses = new Set<string>()
  /** Set where the host shall not be inspectable. */
  fault: Unknown | undefined
  /** Set where the pool alone shall not be. */
  poolFault: Unknown | undefined

  allocatable(): { memoryMib: Probe<number>; diskMib: Probe<number> } {
    const { memoryMib, diskMib } = this.total
    return {
      memoryMib: this.fault ?? { known: true, value: memoryMib },
      diskMib: this.fault ?? this.poolFault ?? { known: true, value: diskMib },
    }
  }

  readonly imagesMib = new Map<Sha256, number>()

  imageMib(sha256: Sha256): number | undefined {
    return this.imagesMib.get(sha256)
  }

  isOwnAddress(address: string): Probe<boolean> {
    return this.fault ?? { known: true, value: this.ownAddresses.has(address) }
  }
}
