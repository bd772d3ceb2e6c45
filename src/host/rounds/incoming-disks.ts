import { dirname } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import type { ArrivalId } from '../../core/migration/departure.ts'
import { whyForeign } from '../../core/world/world.ts'
import { assert } from '../../lib/assert.ts'
import { given } from '../../lib/given.ts'
import type { IncomingDisks, IncomingOwner, IncomingRound } from '../../ports/disk-rounds.ts'
import type { IncomingFile } from '../../ports/incoming-file.ts'
import { readNote } from '../disks/look-at-disk.ts'
import { publishDisk } from '../disks/publish-disk.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import { sync } from '../files/durable.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { mkdir, open, readdir, removeFile, stat } from '../files/pool-files.ts'
import { ifThere, orStorageFault, storageFault } from '../files/storage-fault.ts'
import { PRIVATE_MODE } from '../pool/pool-paths.ts'
import type { PoolAccess } from '../pool/pool-access.ts'
import { checkArrival, isArrivalName, lostRound, roundFault } from './lost-round.ts'
import { OpenIncoming } from './open-incoming.ts'

const SUFFIX = '.raw'
const INCOMING_MODE = 0o600

/** Disks that come into a pool from another host. */
export class PoolIncomingDisks implements IncomingDisks {
  readonly #access: PoolAccess
  readonly #open = new Set<ArrivalId>()
  /** Disks to which a write or a truncation was given up. It may still take effect, over what was written after it. */
  readonly #doubtful = new Set<ArrivalId>()

  constructor(access: PoolAccess) {
    this.#access = access
  }

  async open(arrival: ArrivalId, round: IncomingRound): Promise<IncomingFile> {
    checkArrival(arrival)
    assert(!this.#open.has(arrival), 'an incoming disk is opened once')
    await this.#access.ready()
    const doing = `opening the disk of arrival ${arrival}`
    this.#checkWrites(arrival, doing)
    this.#open.add(arrival)
    try {
      return await orStorageFault(doing, async () => {
        const file = await this.#ensure(arrival, round, doing)
        const onNoAnswer = (): void => void this.#doubtful.add(arrival)
        const onClose = (): void => void this.#open.delete(arrival)
        return new OpenIncoming({
          file,
          lengthBytes: round.sizeBytes,
          about: `the disk of arrival ${arrival}`,
          onNoAnswer,
          onClose,
        })
      })
    } catch (error) {
      this.#open.delete(arrival)
      throw error
    }
  }

  async #ensure(arrival: ArrivalId, { number, sizeBytes }: IncomingRound, doing: string): Promise<GatedFile> {
    const { incoming, incomingDisk } = this.#access.paths
    const path = incomingDisk(arrival)
    if (number === 1) await mkdir(incoming, { recursive: true, mode: PRIVATE_MODE })
    const found = number === 1 ? await ifThere(open(path, 'r+')) : await this.#kept(path, doing)
    const file = found ?? (await open(path, 'wx+', INCOMING_MODE))
    try {
      const { size, nlink } = await file.stat()
      if (nlink > 1) throw lostRound(doing, 'it is the disk of a VM already')
      // What came before may be of another first round, and a round does not name what is zero since the beginning.
      if (number === 1) await this.#truncate(arrival, file, 0)
      else if (size > sizeBytes) throw lostRound(doing, `it has ${size} bytes, and not ${sizeBytes}`)
      await this.#truncate(arrival, file, sizeBytes)
      if (found === undefined) for (const made of [incoming, dirname(incoming)]) await sync(made)
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  /** Sets the length of a disk. A call that was given up may cut off later what was written after it. */
  async #truncate(arrival: ArrivalId, file: GatedFile, bytes: number): Promise<void> {
    try {
      await file.truncate(bytes)
    } catch (error) {
      if (error instanceof NoAnswer) this.#doubtful.add(arrival)
      throw error
    }
  }

  /** Opens the disk that has the rounds before this one. */
  async #kept(path: string, doing: string): Promise<GatedFile> {
    try {
      return await open(path, 'r+')
    } catch (error) {
      throw await roundFault(this.#access, error, doing)
    }
  }

  #checkWrites(arrival: ArrivalId, doing: string): void {
    if (this.#doubtful.has(arrival)) throw lostRound(doing, 'a call that changes it had no answer')
  }

  async publish(arrival: ArrivalId, owner: IncomingOwner, signal: AbortSignal): Promise<void> {
    checkArrival(arrival)
    assert(!this.#open.has(arrival), 'an incoming disk is closed before it is published')
    await this.#access.ready()
    signal.throwIfAborted()
    const doing = `making the disk of VM ${owner.id}`
    this.#checkWrites(arrival, doing)
    try {
      await this.#publish(arrival, owner, { doing, signal })
    } catch (error) {
      signal.throwIfAborted()
      throw storageFault(error, doing)
    }
  }

  async #publish(arrival: ArrivalId, owner: IncomingOwner, { doing, signal }: Publishing): Promise<void> {
    const { paths } = this.#access
    const { id, userId, mark, rootfsSha256, rebuild } = owner
    const temporary = paths.incomingDisk(arrival)
    const [incoming, disk] = [await ifThere(stat(temporary)), await ifThere(stat(paths.disk(id)))]
    const foreign = (because: string): HostFault =>
      new HostFault('disk_foreign', doing, { cause: new Error(because) })
    if (disk === undefined) {
      if (incoming === undefined) throw lostRound(doing, 'what came of it is not there')
      const note = { mark, ...given({ rootfsSha256, rebuild }) }
      const isMade = await publishDisk({ paths, temporary, id, userId, note, signal })
      if (!isMade) throw foreign('another disk was made meanwhile')
      return
    }
    // An earlier call may have got this far: the file has both names, or the second alone.
    if (incoming !== undefined && incoming.ino !== disk.ino) throw foreign('it has another disk')
    const note = await readNote(paths, id)
    if (note === undefined || whyForeign(note.mark, { id, ...mark }, mark.storeId) !== undefined)
      throw foreign('the note beside it does not name this VM')
    await removeFile(temporary)
    await sync(paths.vm(id))
  }

  async remove(arrival: ArrivalId): Promise<void> {
    checkArrival(arrival)
    await this.#access.ready()
    await orStorageFault(`removing the disk of arrival ${arrival}`, async () => {
      await removeFile(this.#access.paths.incomingDisk(arrival))
    })
    // A late write goes to the file that is gone.
    this.#doubtful.delete(arrival)
  }

  list(): Promise<readonly ArrivalId[]> {
    const { paths, looks, verify } = this.#access
    return looks.take('listing the incoming disks of the storage pool', async () => {
      const names = (await ifThere(readdir(paths.incoming))) ?? []
      await verify()
      return names
        .filter((name) => name.endsWith(SUFFIX))
        .map((name) => name.slice(0, -SUFFIX.length))
        .filter(isArrivalName)
    })
  }
}

type Publishing = { readonly doing: string; readonly signal: AbortSignal }
