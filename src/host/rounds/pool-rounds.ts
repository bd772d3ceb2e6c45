import { randomUUID } from 'node:crypto'
import { dirname, join } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import { abortable, never } from '../../lib/abortable.ts'
import { Turns } from '../../lib/semaphore.ts'
import type { DiskRounds, Round, RoundRef } from '../../ports/disk-rounds.ts'
import { hasErrno } from '../ffi/errno-error.ts'
import { reflinkOfVm } from '../files/clone-file.ts'
import { publish, sync, syncOfVm } from '../files/durable.ts'
import { mkdir, open, readdir, removeFile, removeTree, rename, stat } from '../files/pool-files.ts'
import { ifThere, orStorageFault, storageFault } from '../files/storage-fault.ts'
import { PRIVATE_MODE } from '../pool/pool-paths.ts'
import type { PoolAccess } from '../pool/pool-access.ts'
import { listVmDirectories } from '../pool/vm-directory.ts'
import { changesOf } from './changes.ts'
import type { Clones } from './changes.ts'
import { framesOf } from './frame-stream.ts'
import { KeptDigests, KeptOfVms, QuietStretches } from './kept-of-streams.ts'
import { SkippedBytes } from './skipped-bytes.ts'
import { checkArrival, lostRound, roundFault } from './lost-round.ts'

/** Rounds of the disks of a pool, which must be able to share blocks. */
export class PoolRounds implements DiskRounds {
  readonly #access: PoolAccess
  readonly #turns = new Turns<VmId>()
  readonly #skipped = new SkippedBytes()
  /** Digests and stretches of each VM's present round, which its path names. */
  readonly #kept = new KeptOfVms(() => ({ digests: new KeptDigests(), quiet: new QuietStretches() }))

  constructor(access: PoolAccess) {
    this.#access = access
  }

  async ensureRound(ref: RoundRef, signal: AbortSignal): Promise<Round> {
    const { id, arrival, number } = ref
    checkArrival(arrival)
    await this.#access.ready()
    const doing = `taking round ${number} of the disk of VM ${id}`
    const ensure = async (): Promise<Round> => {
      await this.#ensure(ref, doing, signal)
      const clones = await this.#open(ref)
      try {
        return { sizeBytes: clones.sizeBytes, changedBytes: await dataBytes(clones, signal) }
      } finally {
        await close(clones)
      }
    }
    try {
      return await abortable(this.#turns.run(id, ensure, signal), signal)
    } catch (error) {
      signal.throwIfAborted()
      throw await roundFault(this.#access, error, doing)
    }
  }

  async #ensure(ref: RoundRef, doing: string, signal: AbortSignal): Promise<void> {
    const { paths } = this.#access
    const { id, arrival, number } = ref
    const numbers = await this.#numbers(ref)
    const present = Math.max(0, ...numbers)
    if (number > 1 && !numbers.includes(number - 1))
      throw lostRound(doing, 'the round before it is not there')
    if (number < present) throw lostRound(doing, `round ${present} was taken since`)
    if (number > present) await this.#take(ref, doing, signal)
    for (const older of numbers.filter((one) => one < number - 1))
      await removeFile(paths.round(id, arrival, older))
    if (number > 1) return
    const others = (await readdir(paths.rounds(id))).filter((name) => name !== arrival)
    for (const other of others) await removeTree(join(paths.rounds(id), other))
  }

  /** Returns the numbers of the rounds that are there. */
  async #numbers({ id, arrival }: RoundRef): Promise<number[]> {
    const names = (await ifThere(readdir(this.#access.paths.roundsFor(id, arrival)))) ?? []
    return names.flatMap((name) => Number(/^([1-9]\d*)\.raw$/.exec(name)?.[1] ?? []))
  }

  /** Clones the disk. The clone gets its name when it is on the disk, so a loss of power does not change it. */
  async #take({ id, arrival, number }: RoundRef, doing: string, signal: AbortSignal): Promise<void> {
    const { paths } = this.#access
    const path = paths.round(id, arrival, number)
    // A round of this name that is gone had other content.
    this.#kept.forget(id)
    const temporary = join(paths.tmp, `round-${randomUUID()}`)
    try {
      await cloneDisk(paths.disk(id), temporary, { doing, signal })
      await mkdir(dirname(path), { recursive: true, mode: PRIVATE_MODE })
      await publish(temporary, path)
      for (const directory of [paths.rounds(id), paths.vm(id)]) await sync(directory)
    } finally {
      await removeFile(temporary).catch(() => {})
    }
  }

  async *frames(ref: RoundRef, from: number, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    checkArrival(ref.arrival)
    signal.throwIfAborted()
    let clones: Clones | undefined
    try {
      clones = await this.#open(ref)
      const { digests } = this.#kept.of(ref.id, this.#access.paths.round(ref.id, ref.arrival, ref.number))
      const { end, writer } = digests.before(from)
      const extents = changesOf(clones, end, signal)
      const onFrame = (at: number): void => digests.note(at, writer)
      const skipped = this.#skipped
      yield* framesOf({ file: clones.now, extents, writer, from, skipped, onFrame, signal })
    } catch (error) {
      signal.throwIfAborted()
      throw await roundFault(this.#access, error, `reading round ${ref.number} of the disk of VM ${ref.id}`)
    } finally {
      if (clones !== undefined) await close(clones)
    }
  }

  /** Opens a round, and the one before it. */
  async #open({ id, arrival, number }: RoundRef): Promise<Clones> {
    const { paths } = this.#access
    const path = paths.round(id, arrival, number)
    const now = await open(path, 'r')
    try {
      const { size: sizeBytes } = await now.stat()
      const { quiet } = this.#kept.of(id, path)
      if (number === 1) return { now, sizeBytes, quiet }
      return { now, before: await open(paths.round(id, arrival, number - 1), 'r'), sizeBytes, quiet }
    } catch (error) {
      await now.close()
      throw error
    }
  }

  async remove(id: VmId): Promise<void> {
    await this.#access.ready()
    this.#kept.forget(id)
    const { paths } = this.#access
    const remove = async (): Promise<void> => {
      const removed = paths.removed()
      const there = await ifThere(rename(paths.rounds(id), removed).then(() => true))
      if (there === undefined) return
      await sync(paths.vm(id))
      await removeTree(removed)
    }
    await orStorageFault(`removing the rounds of the disk of VM ${id}`, () =>
      this.#turns.run(id, remove, never),
    )
  }

  async list(): Promise<readonly VmId[]> {
    const { paths, looks, verify } = this.#access
    const all = await listVmDirectories(this.#access)
    return looks.take('listing the rounds of disks in the storage pool', async () => {
      const found: VmId[] = []
      for (const id of all) if ((await ifThere(stat(paths.rounds(id)))) !== undefined) found.push(id)
      await verify()
      return found
    })
  }
}

type Cloning = { readonly doing: string; readonly signal: AbortSignal }

async function cloneDisk(disk: string, path: string, { doing, signal }: Cloning): Promise<void> {
  try {
    // While the disk is cloned its guest cannot write, and a clone first flushes what the host has in memory of it.
    await syncOfVm(disk)
    signal.throwIfAborted()
    if (!(await reflinkOfVm(disk, path))) throw new HostFault('migration_unsupported', doing)
  } catch (error) {
    throw hasErrno(error, 'ENOENT') ? storageFault(error, doing, 'disk_missing') : error
  }
}

async function dataBytes(clones: Clones, signal: AbortSignal): Promise<number> {
  let bytes = 0
  for await (const { kind, length } of changesOf(clones, 0, signal)) if (kind === 'data') bytes += length
  return bytes
}

async function close({ now, before }: Clones): Promise<void> {
  try {
    await now.close()
  } finally {
    await before?.close()
  }
}
