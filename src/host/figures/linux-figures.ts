import { machine, release } from 'node:os'
import { basename } from 'node:path'
import { readFileSync } from 'node:fs'
import { HostFault } from '../../core/errors.ts'
import { MONITOR_KINDS } from '../../core/monitor/monitor-kind.ts'
import { given } from '../../lib/given.ts'
import { BoundedLooks } from '../files/bounded-looks.ts'
import { PoolSight } from '../pool/pool-marker.ts'
import { poolPaths } from '../pool/pool-paths.ts'
import { HostAddresses } from './host-addresses.ts'
import { storageFault } from '../files/storage-fault.ts'
import type {
  HostFigures,
  Machine,
  MemoryFigures,
  MonitorProgram,
  PoolFigures,
} from '../../ports/host-figures.ts'
import type { MonitorOffers } from '../../core/monitor/choose-monitor.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'

export type LinuxFiguresOptions = {
  readonly poolDirectory: string
  readonly poolId: string
  readonly monitors: {
    readonly programs: { readonly [K in MonitorKind]: string }
    readonly offers: () => MonitorOffers
    /** Returns the version of the installed program. Throws HostFault. */
    readonly version: (kind: MonitorKind) => Promise<string>
  }
  /** The bound of one look at the pool; for tests. */
  readonly lookMs?: number
}

/** The figures of the Linux host that this process runs on. */
export class LinuxFigures implements HostFigures {
  readonly #monitors: LinuxFiguresOptions['monitors']
  readonly #monitorLooks = {
    qemu: new BoundedLooks({ code: 'monitor_missing', places: 1 }),
    firecracker: new BoundedLooks({ code: 'monitor_missing', places: 1 }),
  }
  readonly #addresses = new HostAddresses()
  readonly #pool: PoolSight
  readonly #poolLooks: BoundedLooks

  constructor({ poolDirectory, poolId, monitors, lookMs }: LinuxFiguresOptions) {
    this.#monitors = monitors
    this.#pool = new PoolSight(poolPaths(poolDirectory), poolId)
    this.#poolLooks = new BoundedLooks({
      code: 'storage_inspection_failed',
      places: 1,
      ...given({ boundMs: lookMs }),
    })
  }

  async memory(): Promise<MemoryFigures> {
    return memoryFigures()
  }

  async cpus(): Promise<number> {
    return onlineCpus()
  }

  pool(): Promise<PoolFigures> {
    return this.#poolLooks.take('measuring the storage pool', () => this.#pool.figures())
  }

  addresses(): Promise<ReadonlySet<string>> {
    return this.#addresses.read()
  }

  async machine(): Promise<Machine> {
    const monitors = await Promise.all(MONITOR_KINDS.map((kind) => this.#monitorProgram(kind)))
    return { kernel: release(), architecture: machine(), monitors }
  }

  monitors(): MonitorOffers {
    return this.#monitors.offers()
  }

  async #monitorProgram(kind: MonitorKind): Promise<MonitorProgram> {
    const version = await this.#monitorVersion(kind)
    const { kinds, default: chosen } = this.monitors()
    // The path of the program is not part of any answer.
    const program = basename(this.#monitors.programs[kind])
    return { kind, program, ...given({ version }), ...kinds[kind], isDefault: chosen === kind }
  }

  /** Returns the version; undefined if the program cannot be run. The start of a VM then reports the reason. */
  async #monitorVersion(kind: MonitorKind): Promise<string | undefined> {
    try {
      return await this.#monitorLooks[kind].take(`asking ${kind} for its version`, () =>
        this.#monitors.version(kind),
      )
    } catch (error) {
      if (error instanceof HostFault) return undefined
      throw error
    }
  }

  close(): void {
    this.#addresses.close()
  }
}

/** Kernel: Documentation/ABI/stable/sysfs-devices-system-cpu. */
const ONLINE = '/sys/devices/system/cpu/online'

/** Reads the host's memory. Throws HostFault `capacity_unknown`. */
export const memoryFigures = (): MemoryFigures =>
  readFigure('/proc/meminfo', 'reading how much memory the host has', parseMeminfo)

/**
 * Counts the CPUs online, including those that an affinity mask keeps from this process. Throws HostFault
 * `capacity_unknown`.
 */
const onlineCpus = (): number => readFigure(ONLINE, 'reading how many CPUs are online', countCpus)

/** Reads a figure, synchronously. The kernel answers from memory, and a dead disk may hold all threads of Node. */
function readFigure<T>(path: string, doing: string, parse: (text: string) => T | undefined): T {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw storageFault(error, doing, 'capacity_unknown')
  }
  const figure = parse(text)
  if (figure === undefined)
    throw new HostFault('capacity_unknown', doing, { cause: new Error('it is not as the kernel writes it') })
  return figure
}

const KIB_A_MIB = 1024

/**
 * Returns total and available memory from /proc/meminfo (proc_meminfo(5)), in MiB; undefined if one of the two lines is
 * missing.
 */
export function parseMeminfo(text: string): { totalMib: number; availableMib: number } | undefined {
  const mib = (name: string): number | undefined => {
    const kib = new RegExp(`^${name}: +([0-9]+) kB$`, 'm').exec(text)?.[1]
    return kib === undefined ? undefined : Math.floor(Number(kib) / KIB_A_MIB)
  }
  const totalMib = mib('MemTotal')
  const availableMib = mib('MemAvailable')
  return totalMib === undefined || availableMib === undefined ? undefined : { totalMib, availableMib }
}

/**
 * Returns how many CPUs a list like `0-3,8` names (kernel: admin-guide/cputopology.rst); undefined if it is not such a
 * list.
 */
export function countCpus(list: string): number | undefined {
  let count = 0
  for (const range of list.trim().split(',')) {
    const [, first, last = first] = /^([0-9]+)(?:-([0-9]+))?$/.exec(range) ?? []
    if (first === undefined || Number(last) < Number(first)) return undefined
    count += Number(last) - Number(first) + 1
  }
  return count
}
