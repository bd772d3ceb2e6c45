import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { join } from 'node:path'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { isoImage } from '../../core/disks/iso-image.ts'
import { SEED_LABEL } from '../../core/disks/seed.ts'
import type { SeedDisk } from '../../core/disks/seed.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import { whyForeign } from '../../core/world/world.ts'
import type { DiskState, FoundNote } from '../../core/world/world.ts'
import { assert } from '../../lib/assert.ts'
import { given } from '../../lib/given.ts'
import { Semaphore, Turns } from '../../lib/semaphore.ts'
import type { Log } from '../../log/log.ts'
import type { DiskSpec } from '../../ports/storage.ts'
import { cloneFile } from '../files/clone-file.ts'
import { giveName, orRemove, sync, writeSynced } from '../files/durable.ts'
import type { Sync } from '../files/durable.ts'
import { openOfVm } from '../files/open-of-vm.ts'
import { lookAtDisk, readNote } from './look-at-disk.ts'
import { own, publishDisk, replaceDisk, writeNote } from './publish-disk.ts'
import type { DiskPublication } from './publish-disk.ts'
import { readdir, removeFile, rename, stat, symlink, truncate } from '../files/pool-files.ts'
import { DISK_MODE, SEED_MODE, seedDigestOf, seedName } from '../pool/pool-paths.ts'
import type { PoolPaths } from '../pool/pool-paths.ts'
import { makeVmDirectory } from '../pool/vm-directory.ts'
import { ifThere, storageFault } from '../files/storage-fault.ts'
import { MIB, mibUp } from '../../lib/byte-units.ts'

/** Each VM's own files. Their directory belongs to root: a monitor may use its files, but cannot replace them. */
export class VmDisks {
  readonly #paths: PoolPaths
  readonly #log: Log
  readonly #places = new Semaphore(limits.diskClonesMax)
  readonly #turns = new Turns<VmId>()
  readonly #sync: Sync

  constructor(paths: PoolPaths, log: Log, syncDisk: Sync = sync) {
    this.#paths = paths
    this.#log = log
    this.#sync = syncDisk
  }

  /** Makes or grows the disk. */
  ensureDisk(disk: DiskSpec, signal: AbortSignal): Promise<void> {
    const doing = `making the disk of VM ${disk.id}`
    return this.#inTurn({ disk, doing, signal }, () => this.#ensureDisk(disk, doing, signal))
  }

  /** Makes the disk of a rebuild, and replaces the old one. */
  rebuildDisk(disk: DiskSpec, signal: AbortSignal): Promise<void> {
    const doing = `rebuilding the disk of VM ${disk.id}`
    return this.#inTurn({ disk, doing, signal }, () => this.#rebuild(disk, doing, signal))
  }

  /** Makes one call at a time for each VM. A call whose step was given up may still be running. */
  async #inTurn({ disk, doing, signal }: DiskCall, work: () => Promise<void>): Promise<void> {
    signal.throwIfAborted()
    try {
      await this.#turns.run(disk.id, work, signal)
    } catch (error) {
      signal.throwIfAborted()
      throw storageFault(error, doing)
    }
  }

  async #rebuild(disk: DiskSpec, doing: string, signal: AbortSignal): Promise<void> {
    const { id, rebuild = 0 } = disk
    const isThere = (await ifThere(stat(this.#paths.disk(id)))) !== undefined
    const note = await readNote(this.#paths, id)
    if (isThere) checkOwner(disk, note, doing)
    if (!isThere || (note?.rebuild ?? 0) >= rebuild) return this.#ensureDisk(disk, doing, signal)
    await this.#places.run(() => this.#clone(disk, { doing, signal, publish: replaceDisk }), signal)
  }

  async #ensureDisk(disk: DiskSpec, doing: string, signal: AbortSignal): Promise<void> {
    if ((await ifThere(stat(this.#paths.disk(disk.id)))) === undefined) {
      const cloning = { doing, signal, publish: publishDisk }
      if (await this.#places.run(() => this.#clone(disk, cloning), signal)) return
    }
    const { sizeMib } = await this.#ensureOwn(disk, doing)
    if (sizeMib < disk.sizeMib) await this.#grow(disk)
  }

  /**
   * Gives the VM's user access to a disk that is the VM's, notes whose it is, and returns it. Throws `disk_foreign` for
   * any other disk.
   */
  async #ensureOwn(disk: DiskSpec, doing: string): Promise<Extract<DiskState, { kind: 'present' }>> {
    const { id, userId, mark, rebuild } = disk
    const found = await lookAtDisk(this.#paths, id)
    if (found.kind !== 'present') throw new Error('it was removed meanwhile')
    const { note } = found
    checkOwner(disk, note, doing)
    if (found.usableBy !== userId) {
      await makeVmDirectory(this.#paths, id)
      await own(this.#paths.disk(id), userId, DISK_MODE)
      this.#log.info({ user_id: userId }, 'owner and mode of a disk repaired')
    }
    if (note === undefined) {
      await writeNote(this.#paths, id, { mark, ...given({ rebuild }) })
      this.#log.info({}, 'disk without a note adopted')
    }
    return found
  }

  async ensureSeed(id: VmId, userId: UserId, seed: SeedDisk): Promise<void> {
    assert(seedDigestOf(seedName(seed.digest)) === seed.digest, 'a seed digest is hexadecimal')
    const doing = `making the seed disk of VM ${id}`
    const temporary = join(this.#paths.tmp, `seed-${randomUUID()}`)
    try {
      await orRemove(temporary, async () => {
        await writeSynced(temporary, isoImage(SEED_LABEL, seed.files), { mode: SEED_MODE, owner: userId })
        await makeVmDirectory(this.#paths, id)
        await rename(temporary, join(this.#paths.vm(id), seedName(seed.digest)))
      })
      // Syncs the directory for both names: a link that leads nowhere after a power failure counts as no seed.
      await this.#pointTo(id, seed.digest)
    } catch (error) {
      throw storageFault(error, doing)
    }
  }

  /** Makes the disk whole: of its size, with its owner and its note. Returns false if another disk was there first. */
  async #clone(
    { id, userId, sizeMib, rootfsSha256, mark, rebuild }: DiskSpec,
    { doing, signal, publish: publishAs }: Cloning,
  ): Promise<boolean> {
    const image = this.#paths.image(rootfsSha256)
    const { size } = await stat(image)
    if (size > sizeMib * MIB) {
      const cause = new Error(`its image has ${mibUp(size)} MiB, the disk ${sizeMib}`)
      throw new HostFault('disk_smaller_than_image', doing, { cause })
    }
    const temporary = join(this.#paths.tmp, `disk-${randomUUID()}`)
    return orRemove(temporary, async () => {
      const method = await cloneFile(image, temporary, signal)
      await truncate(temporary, sizeMib * MIB)
      const isMade = await publishAs({
        paths: this.#paths,
        temporary,
        id,
        userId,
        signal,
        note: { mark, rootfsSha256, ...given({ rebuild }) },
        sync: this.#sync,
      })
      if (!isMade) await removeFile(temporary)
      this.#log.debug({ method }, isMade ? 'disk made' : 'another disk was there first')
      return isMade
    })
  }

  /** Makes the file longer. The new part reads as zeros and takes no space. */
  async #grow({ id, sizeMib }: DiskSpec): Promise<void> {
    const handle = await openOfVm(this.#paths.disk(id), constants.O_RDWR)
    try {
      await handle.truncate(sizeMib * MIB)
      await handle.sync()
    } finally {
      await handle.close()
    }
  }

  /** Points `seed.iso` to this seed atomically, and removes older seeds. */
  async #pointTo(id: VmId, digest: string): Promise<void> {
    const directory = this.#paths.vm(id)
    const link = join(this.#paths.tmp, `seed-link-${randomUUID()}`)
    await symlink(seedName(digest), link)
    await giveName(link, this.#paths.seed(id))
    for (const name of await readdir(directory)) {
      const other = seedDigestOf(name)
      if (other !== undefined && other !== digest) await removeFile(join(directory, name))
    }
  }
}

type DiskCall = { readonly disk: DiskSpec; readonly doing: string; readonly signal: AbortSignal }

type Cloning = Omit<DiskCall, 'disk'> & {
  /** Gives the clone its name. Returns false if another disk keeps it. */
  readonly publish: (publication: DiskPublication) => Promise<boolean>
}

/** Throws `disk_foreign` if the disk beside this note is not the VM's. */
function checkOwner(
  { id, mark, adopts = false }: DiskSpec,
  note: FoundNote | undefined,
  doing: string,
): void {
  const isOwn =
    note === undefined ? adopts : whyForeign(note.mark, { id, ...mark }, mark.storeId) === undefined
  if (isOwn) return
  const cause = new Error('the note beside it does not name this VM')
  throw new HostFault('disk_foreign', doing, { cause })
}
