import { HostFault } from '../../src/core/errors.ts'
import { chooseMonitor } from '../../src/core/monitor/choose-monitor.ts'
import { given } from '../../src/lib/given.ts'
import type { MonitorOffers } from '../../src/core/monitor/choose-monitor.ts'
import type { MonitorKind } from '../../src/core/monitor/monitor-kind.ts'
import type {
  HostFigures,
  Machine,
  MemoryFigures,
  MonitorProgram,
  PoolFigures,
} from '../../src/ports/host-figures.ts'
import { FaultSwitch } from './fault-switch.ts'

export type FiguresMethod = 'memory' | 'cpus' | 'pool' | 'addresses'

/** A host whose figures are set by a test. */
export class FakeFigures implements HostFigures {
  memoryMib: MemoryFigures = { totalMib: 8192, availableMib: 6000 }
  cpusOnline = 4
  poolMib = { totalMib: 100_000, availableMib: 90_000 }
  poolId = 'pool-1'
  readonly hostAddresses = new Set(['127.0.0.1', '::1', '192.0.2.1'])
  version: string | undefined = '10.0.2'
  /** Number of inspections of each figure. */
  readonly looks = { memory: 0, cpus: 0, pool: 0, addresses: 0 }
  readonly #faults = new FaultSwitch<FiguresMethod>()
  readonly #broken = new Map<FiguresMethod, HostFault>()
  #inSight = true

  /** Makes every call of a method fail until `repair` is called. */
  break(method: FiguresMethod, fault: HostFault): void {
    this.#broken.set(method, fault)
  }

  repair(method: FiguresMethod): void {
    this.#broken.delete(method)
  }

  /** Lets the next call wait until the returned function is called. */
  holdNext(method: FiguresMethod): () => void {
    return this.#faults.holdNext(method)
  }

  /** Hides the pool, as an unmount does, or brings it back. */
  setInSight(inSight: boolean): void {
    this.#inSight = inSight
  }

  memory(): Promise<MemoryFigures> {
    return this.#look('memory', () => this.memoryMib)
  }

  cpus(): Promise<number> {
    return this.#look('cpus', () => this.cpusOnline)
  }

  pool(): Promise<PoolFigures> {
    return this.#look('pool', () => {
      this.#assertInSight()
      return { poolId: this.poolId, ...this.poolMib }
    })
  }

  addresses(): Promise<ReadonlySet<string>> {
    return this.#look('addresses', () => new Set(this.hostAddresses))
  }

  async machine(): Promise<Machine> {
    const { kinds, default: chosen } = this.monitors()
    const program = (kind: MonitorKind, name: string): MonitorProgram => ({
      ...{ kind, program: name, isDefault: kind === chosen, ...kinds[kind] },
      ...given({ version: kind === 'qemu' ? this.version : undefined }),
    })
    const monitors = [program('qemu', 'qemu-system-x86_64'), program('firecracker', 'firecracker')]
    return { kernel: '6.12.41', architecture: 'x86_64', monitors }
  }

  monitors(): MonitorOffers {
    return chooseMonitor({
      kind: 'auto',
      accelerator: 'auto',
      isExecutable: { qemu: true, firecracker: false },
      programs: { qemu: '/usr/bin/qemu-system-x86_64', firecracker: '/usr/bin/firecracker' },
      kvm: { opens: false, because: 'KVM does not open (ENOENT)' },
    })
  }

  #look<T>(method: FiguresMethod, look: () => T): Promise<T> {
    this.looks[method] += 1
    return this.#faults.run(method, () => {
      const fault = this.#broken.get(method)
      if (fault !== undefined) throw fault
      return look()
    })
  }

  #assertInSight(): void {
    if (!this.#inSight) throw new HostFault('storage_inspection_failed', 'measuring the storage pool')
  }
}
