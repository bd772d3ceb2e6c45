import { stat } from 'node:fs/promises'
import { machine, release } from 'node:os'
import { basename } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import { BoundedLooks } from '../files/bounded-looks.ts'
import { poolFigures, poolImages } from '../pool/pool-figures.ts'
import { poolPaths } from '../pool/pool-paths.ts'
import { qemuVersion } from '../qemu/qemu-version.ts'
import { HostAddresses } from './host-addresses.ts'
import { memoryFigures, onlineCpus } from './proc-figures.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import type { HostFigures, Machine, MemoryFigures, PoolFigures, PoolImage } from '../../ports/host-figures.ts'

export type LinuxFiguresOptions = {
  readonly poolDirectory: string
  readonly poolId: string
  readonly monitor: { readonly program: string; readonly accelerator: string }
  /** The bound of one look at the pool; for tests. */
  readonly lookMs?: number
}

/** The figures of the Linux host that this process runs on. */
export class LinuxFigures implements HostFigures {
  readonly #monitor: MonitorVersion
  readonly #accelerator: string
  readonly #addresses = new HostAddresses()
  readonly #paths: PoolPaths
  readonly #poolId: string
  readonly #poolLooks: BoundedLooks

  constructor({ poolDirectory, poolId, monitor, lookMs }: LinuxFiguresOptions) {
    this.#monitor = new MonitorVersion(monitor.program)
    this.#accelerator = monitor.accelerator
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

  images(): Promise<readonly PoolImage[]> {
    return this.#poolLooks.take('listing the images of the storage pool', () =>
      poolImages(this.#paths, this.#poolId),
    )
  }

  addresses(): Promise<ReadonlySet<string>> {
    return this.#addresses.read()
  }

  async machine(): Promise<Machine> {
    const version = await this.#monitor.read()
    const monitor = { program: this.#monitor.name, accelerator: this.#accelerator }
    return {
      kernel: release(),
      architecture: machine(),
      monitor: version === undefined ? monitor : { ...monitor, version },
    }
  }

  close(): void {
    this.#addresses.close()
  }
}

/** The version of the monitor program. It is read again whenever the program's file has changed. */
class MonitorVersion {
  readonly #program: string
  readonly #looks = new BoundedLooks({ code: 'monitor_missing', places: 1 })
  #known: { readonly file: string; readonly version: string } | undefined

  constructor(program: string) {
    this.#program = program
  }

  /** The program's name without its path, which is not part of any answer. */
  get name(): string {
    return basename(this.#program)
  }

  /** Returns the version; undefined if the program cannot be run. The start of a VM then reports the reason. */
  async read(): Promise<string | undefined> {
    const file = await identityOf(this.#program)
    if (file === undefined) return undefined
    if (this.#known?.file === file) return this.#known.version
    try {
      const version = await this.#looks.take('asking the monitor for its version', () =>
        qemuVersion(this.#program),
      )
      this.#known = { file, version }
      return version
    } catch (error) {
      if (error instanceof HostFault) return undefined
      throw error
    }
  }
}

/** Returns a text that changes with the file; undefined if there is no file. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino, size, ctimeMs } = await stat(path)
    return [dev, ino, size, ctimeMs].join()
  } catch {
    return undefined
  }
}
