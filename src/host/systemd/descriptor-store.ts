import { fstatSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { Batch } from '../../lib/batch.ts'
import { SharedLook } from '../../lib/shared-look.ts'
import { HostFault } from '../../core/errors.ts'
import { isBusError } from './bus.ts'
import { isReload } from './early-signals.ts'
import { findOwnUnit } from './own-unit.ts'
import { descriptorStoreSupport, notify, notifyBarrier } from './sd-notify.ts'
import { setCloseOnExec } from '../ffi/descriptor.ts'
import { StoredEntries } from './stored-entries.ts'
import type { StoreFact } from '../../core/doctor/host-facts.ts'
import type { Entry } from './stored-entries.ts'
import type { ServiceUnit } from './own-unit.ts'
import type { SystemdBus } from './systemd-bus.ts'

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
  #ownUnit: ServiceUnit | undefined
  /**
   * The newest listing. It is valid while the number of entries is the same, because only this process changes them.
   */
  #entries: StoredEntries | undefined
  /** How many entries may have come, and gone, by what is under way. */
  #coming = 0
  #going = 0
  /** How the unit is set up. It stays so until systemd loads its units again. */
  #setUp: Promise<SetUp> | undefined
  /** All VMs that are inspected at the same time ask for the names. */
  readonly #looks = new SharedLook(() => this.#now())

  /** Batches, because systemd's answers that each needs have all stored descriptors. */
  readonly #stores = new Batch<Store>((stores) => this.#storeAll(stores))
  readonly #removals = new Batch<string>((names) => this.#removeAll(names))

  /** Taken at once, so that programs that run later do not inherit them. */
  #inherited = takeInheritedDescriptors()

  constructor({ bus }: { readonly bus: SystemdBus }) {
    this.#bus = bus
    const forget = (): void => {
      this.#setUp = undefined
    }
    bus.onSignal((signal) => {
      if (isReload(signal)) forget()
    })
    bus.onLoss(forget)
  }

  /** Checks whether stored descriptors outlive a stop of the daemon. Throws HostFault `systemd_unavailable`. */
  async check(): Promise<StoreFact> {
    return checkDescriptorStore(await this.#findUnit())
  }

  takeInherited(): readonly InheritedDescriptor[] {
    const inherited = this.#inherited
    this.#inherited = []
    return inherited
  }

  async store(name: string, fd: number): Promise<void> {
    try {
      await this.#stores.add({ name, fd })
    } catch (error) {
      if (error instanceof HostFault && error.code === 'no_console_place') throw error
      throw new HostFault('console_unprotected', `storing ${name} with systemd`, { cause: error })
    }
  }

  async #storeAll(stores: readonly Store[]): Promise<ReadonlyMap<Store, Error>> {
    const [{ total }, entries] = await Promise.all([this.#knownSetUp(), this.#now()])
    const failed = new Map<Store, Error>()
    const { names } = entries
    let free = total - entries.count
    for (const store of stores) {
      if (!names.has(store.name)) free -= 1
      if (free < 0) failed.set(store, noPlace(store.name, total))
    }
    const sent = stores.filter((store) => !failed.has(store))
    const areNew = sent.every(({ name }) => !names.has(name))
    this.#coming = sent.length
    try {
      // Without FDPOLL=0 systemd drops a pty master as soon as no slave is open (sd_notify(3)).
      for (const { name, fd } of sent) notify(`FDSTORE=1\nFDNAME=${name}\nFDPOLL=0`, [fd])
      if (await this.#reaches(areNew ? entries : undefined, sent.length)) {
        entries.add(sent.map(({ name, fd }) => ({ name, ...numbersOf(fd) })))
        return failed
      }
    } finally {
      this.#coming = 0
    }
    const kept = await this.#read()
    const why = `systemd did not keep it beside ${kept.count} others: is FileDescriptorStoreMax= used up?`
    for (const store of sent) {
      const isKept = kept.some((entry) => entry.name === store.name && isSameFile(entry, numbersOf(store.fd)))
      if (!isKept) failed.set(store, new Error(why))
    }
    return failed
  }

  async remove(name: string): Promise<void> {
    try {
      await this.#removals.add(name)
    } catch (error) {
      const code = error instanceof HostFault ? error.code : 'console_unprotected'
      throw new HostFault(code, `removing ${name} from systemd`, { cause: error })
    }
  }

  async #removeAll(names: readonly string[]): Promise<ReadonlyMap<string, Error>> {
    const entries = await this.#now().catch(() => undefined)
    const removed = new Set(names)
    const going = entries?.countOf(removed) ?? 0
    this.#going = going
    try {
      // If systemd does not listen, nothing was ever stored.
      const heard = names.map((name) => notify(`FDSTOREREMOVE=1\nFDNAME=${name}`))
      if (!heard.includes(true)) return new Map()
      if (await this.#reaches(entries, -going)) {
        entries?.remove(removed)
        return new Map()
      }
    } finally {
      this.#going = 0
    }
    const kept = await this.#read()
    const failed = names.filter((name) => kept.names.has(name))
    return new Map(failed.map((name) => [name, new Error('systemd still keeps it')]))
  }

  async names(): Promise<ReadonlySet<string>> {
    try {
      return (await this.#looks.take()).names
    } catch (error) {
      throw new HostFault('systemd_unavailable', 'reading what systemd has stored', { cause: error })
    }
  }

  async places(): Promise<{ total: number; free: number }> {
    try {
      const [total, entries] = await Promise.all([this.#total(), this.#now()])
      return { total, free: Math.max(0, total - entries.count) }
    } catch (error) {
      throw new HostFault('systemd_unavailable', 'reading how much systemd may store', { cause: error })
    }
  }

  async #total(): Promise<number> {
    const unit = await this.#findUnit()
    const [max] = unit === undefined ? [0] : await unit.properties('Service', 'FileDescriptorStoreMax')
    return Math.min(Number(max ?? 0), limits.consolePlacesMax)
  }

  async #now(): Promise<StoredEntries> {
    const count = await this.#count()
    const known = this.#entries
    const isKnown =
      known !== undefined && count >= known.count - this.#going && count <= known.count + this.#coming
    return isKnown ? known : this.#read()
  }

  /**
   * Waits until systemd has read what it was sent. Returns whether it did all of that, by the number of entries that it
   * then has. It never keeps more after a store, or fewer after a removal, so their number is proof, and no listing of
   * all stored descriptors is needed. It mostly reads notifications before calls, so the number is asked for without a
   * wait first.
   *
   * @param before the entries before; undefined if their number proves nothing
   * @param change how many more entries there should be
   */
  async #reaches(before: StoredEntries | undefined, change: number): Promise<boolean> {
    const isReached = async (): Promise<boolean> =>
      before !== undefined && (await this.#count()) === before.count + change && this.#entries === before
    if (await isReached()) return true
    await notifyBarrier()
    return isReached()
  }

  #knownSetUp(): Promise<SetUp> {
    if (this.#setUp !== undefined) return this.#setUp
    const checked = this.#checkSetUp()
    this.#setUp = checked
    checked.catch(() => {
      if (this.#setUp === checked) this.#setUp = undefined
    })
    return checked
  }

  /** Throws an error that says what to do if consoles would not outlive the daemon. */
  async #checkSetUp(): Promise<SetUp> {
    const [check, total] = await Promise.all([this.check(), this.#total()])
    if (!check.available) throw new Error(`${check.because}; to fix it: ${check.remedy}`)
    return { total }
  }

  async #count(): Promise<number> {
    const unit = await this.#findUnit()
    const [count] = unit === undefined ? [0] : await unit.properties('Service', 'NFileDescriptorStore')
    return Number(count)
  }

  async #read(): Promise<StoredEntries> {
    const unit = await this.#findUnit()
    if (unit === undefined) return new StoredEntries([])
    const lines = await this.#bus
      .callManager('DumpUnitFileDescriptorStore', 's', [unit.name])
      .then(([dump]) => dump as readonly EntryLine[])
      .catch((error: unknown) => {
        if (isBusError(error, STORE_DISABLED)) return []
        throw error
      })
    const read = new StoredEntries(lines.map(entryOf))
    this.#entries = read
    return read
  }

  async #findUnit(): Promise<ServiceUnit | undefined> {
    this.#ownUnit ??= await findOwnUnit(this.#bus)
    return this.#ownUnit
  }
}

/** How many descriptors the own unit may keep, while it keeps them over a stop of the daemon. */
type SetUp = { readonly total: number }

const noPlace = (name: string, places: number): HostFault =>
  new HostFault(
    'no_console_place',
    `storing ${name} with systemd: all ${places} places are taken by VMs that run; it is tried again when one is free`,
  )

type Store = { readonly name: string; readonly fd: number }

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

type FileNumbers = Omit<Entry, 'name'>

function numbersOf(fd: number): FileNumbers {
  const { ino, rdev } = fstatSync(fd, { bigint: true })
  // glibc packs device numbers in this way (makedev(3)).
  const major = Number(((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & ~0xfffn))
  const minor = Number((rdev & 0xffn) | ((rdev >> 12n) & ~0xffn))
  return { inode: ino, major, minor }
}

/**
 * Compares a stored entry with an open file. All pty masters are openings of one device node, so this shows that an
 * entry is a master, but not which one.
 */
const isSameFile = (entry: Entry, { inode, major, minor }: FileNumbers): boolean =>
  entry.inode === inode && entry.major === major && entry.minor === minor

export type InheritedDescriptor = { readonly name: string; readonly fd: number }

/** The first descriptor that systemd passes (SD_LISTEN_FDS_START, sd_listen_fds(3)). */
const FIRST = 3

/**
 * Takes the descriptors that systemd kept for this unit and passed to this process, with the names they were stored
 * under. Removes the variables for them from the environment, and closes the descriptors in programs that run later.
 */
function takeInheritedDescriptors(): readonly InheritedDescriptor[] {
  const { LISTEN_PID: pid, LISTEN_FDS: count, LISTEN_FDNAMES: names = '' } = process.env
  for (const variable of ['LISTEN_PID', 'LISTEN_PIDFDID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) {
    delete process.env[variable]
  }
  // They are meant for a parent process.
  if (Number(pid) !== process.pid) return []
  const fdNames = names.split(':')
  return Array.from({ length: Number(count) }, (_, index) => {
    const fd = FIRST + index
    setCloseOnExec(fd)
    return { name: fdNames[index] ?? '', fd }
  })
}

const REFERENCES = ['WantedBy', 'RequiredBy', 'RequisiteOf', 'BoundBy', 'UpheldBy', 'TriggeredBy'] as const
const SPEAKERS = ['main', 'exec', 'all']

/** Checks how the daemon's unit is set up. Throws HostFault `systemd_unavailable`. */
export async function checkDescriptorStore(unit: ServiceUnit | undefined): Promise<StoreFact> {
  const support = descriptorStoreSupport()
  if (!support.supported) return no(support.because, 'install libsystemd0')
  if (unit === undefined)
    return no('the daemon is not the main process of a service', 'start it with systemctl')
  const { name } = unit
  const [[access, max, preserve], [fileState, ...referrers]] = await Promise.all([
    unit.properties('Service', 'NotifyAccess', 'FileDescriptorStoreMax', 'FileDescriptorStorePreserve'),
    unit.properties('Unit', 'UnitFileState', ...REFERENCES),
  ])
  const wrong = (setting: string, value: unknown, right: string): StoreFact =>
    no(`${name} has ${setting}=${String(value)}`, `set ${setting}=${right} in its section [Service]`)

  if (preserve === undefined) {
    return no('this systemd keeps no store while its unit is stopped', 'upgrade to systemd 254 or later')
  }
  if (!SPEAKERS.includes(String(access))) return wrong('NotifyAccess', access, 'main')
  if (max === 0) return wrong('FileDescriptorStoreMax', max, '4096')
  if (preserve !== 'yes') return wrong('FileDescriptorStorePreserve', preserve, 'yes')
  // systemd unloads a stopped unit that no other unit refers to, and drops its store.
  if (referrers.every((units) => units === undefined || (units as readonly string[]).length === 0)) {
    const state = String(fileState) || 'transient'
    return no(`nothing refers to ${name} (${state}): a stop would drop the store`, `systemctl enable ${name}`)
  }
  return { available: true }
}

const no = (because: string, remedy: string): StoreFact => ({ available: false, because, remedy })
