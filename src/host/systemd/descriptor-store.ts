import { fstatSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { BusError } from './bus.ts'
import { checkDescriptorStore } from './descriptor-store-check.ts'
import type { StoreCheck } from './descriptor-store-check.ts'
import { takeInheritedDescriptors } from './inherited-descriptors.ts'
import type { InheritedDescriptor } from './inherited-descriptors.ts'
import { notify, notifyBarrier } from './notify.ts'
import { findOwnUnit } from './own-unit.ts'
import type { OwnUnit } from './own-unit.ts'
import type { SystemdBus } from './systemd-bus.ts'

export { descriptorStoreSupport } from './notify.ts'
export type { StoreCheck } from './descriptor-store-check.ts'

/** systemd returns this error if the unit has FileDescriptorStoreMax=0. */
const STORE_DISABLED = 'org.freedesktop.systemd1.FileDescriptorStoreDisabled'

/** Open files that outlive this process, by name. */
export interface DescriptorStore {
  /** Returns what an earlier process left. Returns it only once. */
  takeInherited(): readonly InheritedDescriptor[]
  /**
   * Resolves when the descriptor is confirmed to be stored. Throws HostFault if it may not be, `no_console_place` if
   * all places are taken. Safe to repeat.
   */
  store(name: string, fd: number): Promise<void>
  /** Resolves when no descriptor of that name is stored. Throws HostFault. */
  remove(name: string): Promise<void>
  /** Returns the names of the stored descriptors, as systemd reports them. Throws HostFault. */
  names(): Promise<ReadonlySet<string>>
  /** Returns how many descriptors may be stored, and how many more can be stored now. Throws HostFault. */
  places(): Promise<{ readonly total: number; readonly free: number }>
}

/** The store that systemd keeps for the daemon's own unit (systemd.io/FILE_DESCRIPTOR_STORE). */
export class SystemdDescriptorStore implements DescriptorStore {
  readonly #bus: SystemdBus
  #ownUnit: OwnUnit | undefined
  /**
   * The newest listing. It is valid while the number of entries is the same, because only this process changes them.
   */
  #entries: readonly Entry[] | undefined

  /** How many stores are under way. */
  #storing = 0

  /** Taken at once, so that programs that run later do not inherit them. */
  #inherited = takeInheritedDescriptors()

  constructor({ bus }: { readonly bus: SystemdBus }) {
    this.#bus = bus
  }

  /** Checks whether stored descriptors outlive a stop of the daemon. Throws HostFault `systemd_unavailable`. */
  async check(): Promise<StoreCheck> {
    return checkDescriptorStore(await this.#findUnit())
  }

  takeInherited(): readonly InheritedDescriptor[] {
    const inherited = this.#inherited
    this.#inherited = []
    return inherited
  }

  async store(name: string, fd: number): Promise<void> {
    this.#storing += 1
    try {
      const [check, entries, total] = await Promise.all([this.check(), this.#now(), this.#total()])
      if (!check.available) throw new Error(`${check.because}; to fix it: ${check.mend}`)
      // A store under way may be counted twice. Then the last place is given out a moment later.
      const isStored = entries.some((entry) => entry.name === name)
      if (!isStored && entries.length + this.#storing > total) throw noPlace(name, total)
      // Without FDPOLL=0 systemd drops a pty master as soon as no slave is open (sd_notify(3)).
      notify(`FDSTORE=1\nFDNAME=${name}\nFDPOLL=0`, [fd])
      await notifyBarrier()
      const kept = await this.#read()
      if (!kept.some((entry) => entry.name === name && isSameFile(entry, fd))) {
        throw new Error(
          `systemd did not keep it beside ${kept.length} others: is FileDescriptorStoreMax= used up?`,
        )
      }
    } catch (error) {
      if (error instanceof HostFault && error.code === 'no_console_place') throw error
      throw new HostFault('console_unprotected', `storing ${name} with systemd`, { cause: error })
    } finally {
      this.#storing -= 1
    }
  }

  async remove(name: string): Promise<void> {
    try {
      // If systemd does not listen, nothing was ever stored.
      if (!notify(`FDSTOREREMOVE=1\nFDNAME=${name}`)) return
      await notifyBarrier()
      const entries = await this.#read()
      if (entries.some((entry) => entry.name === name)) throw new Error('systemd still keeps it')
    } catch (error) {
      const code = error instanceof HostFault ? error.code : 'console_unprotected'
      throw new HostFault(code, `removing ${name} from systemd`, { cause: error })
    }
  }

  async names(): Promise<ReadonlySet<string>> {
    try {
      return new Set((await this.#now()).map(({ name }) => name))
    } catch (error) {
      throw new HostFault('systemd_unavailable', 'reading what systemd has stored', { cause: error })
    }
  }

  async places(): Promise<{ total: number; free: number }> {
    try {
      const [total, entries] = await Promise.all([this.#total(), this.#now()])
      return { total, free: Math.max(0, total - entries.length) }
    } catch (error) {
      throw new HostFault('systemd_unavailable', 'reading how much systemd may store', { cause: error })
    }
  }

  async #total(): Promise<number> {
    const unit = await this.#findUnit()
    const [max] = unit === undefined ? [0] : await unit.properties('Service', 'FileDescriptorStoreMax')
    return Math.min(Number(max ?? 0), limits.consolePlacesMax)
  }

  async #now(): Promise<readonly Entry[]> {
    const unit = await this.#findUnit()
    const [count] = unit === undefined ? [0] : await unit.properties('Service', 'NFileDescriptorStore')
    const known: readonly Entry[] | undefined = this.#entries
    return known !== undefined && known.length === count ? known : this.#read()
  }

  async #read(): Promise<readonly Entry[]> {
    const unit = await this.#findUnit()
    if (unit === undefined) return []
    const lines = await this.#bus
      .callManager('DumpUnitFileDescriptorStore', 's', [unit.name])
      .then(([dump]) => dump as readonly EntryLine[])
      .catch((error: unknown) => {
        if (error instanceof BusError && error.errorName === STORE_DISABLED) return []
        throw error
      })
    this.#entries = lines.map(entryOf)
    return this.#entries
  }

  async #findUnit(): Promise<OwnUnit | undefined> {
    this.#ownUnit ??= await findOwnUnit(this.#bus)
    return this.#ownUnit
  }
}

const noPlace = (name: string, places: number): HostFault =>
  new HostFault(
    'no_console_place',
    `storing ${name} with systemd: all ${places} places are taken by VMs that run; it is tried again when one is free`,
  )

/** A stored descriptor: its name, and its file's numbers from fstat(2). */
type Entry = { readonly name: string; readonly inode: bigint; readonly major: number; readonly minor: number }

/** A line of DumpUnitFileDescriptorStore (org.freedesktop.systemd1(5)). */
type EntryLine = readonly [
  name: string,
  mode: number,
  deviceMajor: number,
  deviceMinor: number,
  inode: bigint,
  rdevMajor: number,
  rdevMinor: number,
  path: string,
  flags: number,
]

const entryOf = ([name, , , , inode, major, minor]: EntryLine): Entry => ({ name, inode, major, minor })

/**
 * Compares a stored entry with a descriptor. All pty masters are openings of one device node, so this shows that an
 * entry is a master, but not which one.
 */
function isSameFile(entry: Entry, fd: number): boolean {
  const { ino, rdev } = fstatSync(fd, { bigint: true })
  // glibc packs device numbers in this way (makedev(3)).
  const major = Number(((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & ~0xfffn))
  const minor = Number((rdev & 0xffn) | ((rdev >> 12n) & ~0xffn))
  return entry.inode === ino && entry.major === major && entry.minor === minor
}
