import { machine, release } from 'node:os'
import { basename } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { BoundedLooks } from '../files/bounded-looks.ts'
import { poolFigures } from '../pool/pool-figures.ts'
import { poolPaths } from '../pool/pool-paths.ts'
import { HostAddresses } from './host-addresses.ts'
import { readFileSync } from 'node:fs'
import { countCpus, parseMeminfo } from '../../core/capacity/proc.ts'
import { storageFault } from '../files/storage-fault.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import type { HostFigures, Machine, MemoryFigures, PoolFigures } from '../../ports/host-figures.ts'

export type LinuxFiguresOptions = {
  readonly poolDirectory: string
  readonly poolId: string
  readonly monitor: {
    readonly program: string
    readonly accelerator: string
    /** Returns the version of the installed program. Throws HostFault. */
    readonly version: () => Promise<string>
  }
  /** The bound of one look at the pool; for tests. */
  readonly lookMs?: number
}

/** The figures of the Linux host that this process runs on. */
export class LinuxFigures implements HostFigures {
  readonly #monitor: LinuxFiguresOptions['monitor']
  readonly #monitorLooks = new BoundedLooks({ code: 'monitor_missing', places: 1 })
  readonly #addresses = new HostAddresses()
  readonly #paths: PoolPaths
  readonly #poolId: string
  readonly #poolLooks: BoundedLooks

  constructor({ poolDirectory, poolId, monitor, lookMs }: LinuxFiguresOptions) {
    this.#monitor = monitor
    this.#paths = poolPaths(poolDirectory)
    this.#poolId = poolId
    this.#poolLooks = new BoundedLooks({
      code: 'storage_inspection_failed',
      places: 1,
      ...(lookMs === undefined ? {} : { boundMs: lookMs }),
    })
  }

  async memory(): Promise<MemoryFigures> {
    return memoryFigures()
  }

  async cpus(): Promise<number> {
    return onlineCpus()
  }

  pool(): Promise<PoolFigures> {
    return this.#poolLooks.take('measuring the storage pool', () => poolFigures(this.#paths, this.#poolId))
  }

  addresses(): Promise<ReadonlySet<string>> {
    return this.#addresses.read()
  }

  async machine(): Promise<Machine> {
    const version = await this.#monitorVersion()
    const { program, accelerator } = this.#monitor
    // The path of the program is not part of any answer.
    const monitor = { program: basename(program), accelerator }
    return {
      kernel: release(),
      architecture: machine(),
      monitor: version === undefined ? monitor : { ...monitor, version },
    }
  }

  /** Returns the version; undefined if the program cannot be run. The start of a VM then reports the reason. */
  async #monitorVersion(): Promise<string | undefined> {
    try {
      return await this.#monitorLooks.take('asking the monitor for its version', () =>
        this.#monitor.version(),
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
const memoryFigures = (path = '/proc/meminfo'): MemoryFigures =>
  readFigure(path, 'reading how much memory the host has', parseMeminfo)

/**
 * Counts the CPUs online, including those that an affinity mask keeps from this process. Throws HostFault
 * `capacity_unknown`.
 */
const onlineCpus = (path = ONLINE): number => readFigure(path, 'reading how many CPUs are online', countCpus)

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
