import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { ArrivalId } from '../../src/core/migration/departure.ts'
import { ExtentCutter } from '../../src/core/migration/extents.ts'
import { FRAME_HEAD_BYTES, FrameWriter } from '../../src/core/migration/frames.ts'
import type { Extent } from '../../src/core/migration/extents.ts'
import { streamChecks } from '../../src/host/rounds/stream-checks.ts'
import type { DiskRounds, Round, RoundRef } from '../../src/ports/disk-rounds.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type RoundsMethod = keyof DiskRounds

/** The rounds of one VM: clones by their number. */
type Rounds = { readonly arrival: ArrivalId; readonly clones: Map<number, Uint8Array> }

const BLOCK_BYTES = 4096

/** Rounds of disks in memory. They outlive the daemon: the next one is given the same object. */
export class FakeDiskRounds implements DiskRounds {
  /** Disks that tests fill. */
  readonly disks = new Map<VmId, Uint8Array>()
  readonly #rounds = new Map<VmId, Rounds>()
  readonly #diskOf: (id: VmId) => Uint8Array | undefined
  readonly #faults = new FaultSwitch<RoundsMethod>()
  #inSight = true
  #reflink = true

  /** @param diskOf returns the disk of a VM that `disks` does not have; undefined if it has none */
  constructor(diskOf: (id: VmId) => Uint8Array | undefined = () => undefined) {
    this.#diskOf = diskOf
  }

  failNext(method: RoundsMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Lets the next call wait until the returned function is called, or until it is aborted. */
  holdNext(method: RoundsMethod): () => void {
    return this.#faults.holdNext(method)
  }

  /** Hides the pool, as an unmount does, or brings it back. */
  setInSight(inSight: boolean): void {
    this.#inSight = inSight
  }

  /** Whether the pool's file system can share blocks. */
  setReflink(reflink: boolean): void {
    this.#reflink = reflink
  }

  /** The disk was removed, and its rounds with it. */
  forget(id: VmId): void {
    this.disks.delete(id)
    this.#rounds.delete(id)
  }

  /** Loses a round, as a damaged file system does. */
  lose({ id, number }: Pick<RoundRef, 'id' | 'number'>): void {
    this.#rounds.get(id)?.clones.delete(number)
  }

  ensureRound(ref: RoundRef, signal: AbortSignal): Promise<Round> {
    return this.#faults.run('ensureRound', () => this.#ensure(ref), signal)
  }

  #ensure(ref: RoundRef): Round {
    this.#look()
    const { id, arrival, number } = ref
    const doing = `taking round ${number} of the disk of VM ${id}`
    const found = this.#rounds.get(id)
    const clones = found?.arrival === arrival ? found.clones : new Map<number, Uint8Array>()
    const present = Math.max(0, ...clones.keys())
    if ((number > 1 && !clones.has(number - 1)) || number < present) throw new HostFault('round_lost', doing)
    if (number > present) {
      const disk = this.disks.get(id) ?? this.#diskOf(id)
      if (disk === undefined) throw new HostFault('disk_missing', doing)
      if (!this.#reflink) throw new HostFault('migration_unsupported', doing)
      clones.set(number, Uint8Array.from(disk))
      clones.delete(number - 2)
      this.#rounds.set(id, { arrival, clones })
    }
    const { now, before } = this.#clones(ref)
    const changed = changesOf(now, before).filter(({ kind }) => kind === 'data')
    return { sizeBytes: now.length, changedBytes: changed.reduce((sum, { length }) => sum + length, 0) }
  }

  async *frames(ref: RoundRef, from: number, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    const { now, before } = await this.#faults.run('frames', () => this.#clones(ref), signal)
    const writer = new FrameWriter(streamChecks)
    for (const extent of changesOf(now, before)) {
      const frame = rendered(writer, extent, now)
      if (extent.offset >= from) yield await this.#faults.run('frames', () => frame, signal)
    }
    yield await this.#faults.run('frames', () => writer.end(), signal)
  }

  remove(id: VmId): Promise<void> {
    return this.#faults.run('remove', () => {
      this.#look()
      this.#rounds.delete(id)
    })
  }

  list(): Promise<readonly VmId[]> {
    return this.#faults.run('list', () => {
      this.#look()
      return [...this.#rounds.keys()]
    })
  }

  #clones({ id, arrival, number }: RoundRef): { readonly now: Uint8Array; readonly before: Uint8Array } {
    this.#look()
    const found = this.#rounds.get(id)
    const clones = found?.arrival === arrival ? found.clones : undefined
    const now = clones?.get(number)
    const before = number === 1 ? new Uint8Array() : clones?.get(number - 1)
    if (now === undefined || before === undefined)
      throw new HostFault('round_lost', `reading round ${number} of the disk of VM ${id}`)
    return { now, before }
  }

  #look(): void {
    if (!this.#inSight) throw new HostFault('storage_inspection_failed', 'looking for the storage pool')
  }
}

/** Compares blocks by their content. So unlike on a file system, a block that was written as it was has not changed. */
function changesOf(now: Uint8Array, before: Uint8Array): Extent[] {
  const cutter = new ExtentCutter(limits.roundFrameBytesMax)
  const changes: Extent[] = []
  for (let offset = 0; offset < now.length; offset += BLOCK_BYTES) {
    const is = Buffer.from(now.buffer, now.byteOffset + offset, Math.min(BLOCK_BYTES, now.length - offset))
    const was = Buffer.alloc(is.length)
    was.set(before.subarray(offset, offset + is.length))
    if (is.equals(was)) continue
    const kind = is.equals(ZEROS.subarray(0, is.length)) ? 'hole' : 'data'
    changes.push(...cutter.add({ kind, offset, length: is.length }))
  }
  return [...changes, ...cutter.end()]
}

const ZEROS = Buffer.alloc(BLOCK_BYTES)

function rendered(writer: FrameWriter, { kind, offset, length }: Extent, disk: Uint8Array): Uint8Array {
  if (kind === 'hole') return writer.hole({ offset, length })
  const frame = new Uint8Array(FRAME_HEAD_BYTES + length)
  frame.set(disk.subarray(offset, offset + length), FRAME_HEAD_BYTES)
  writer.finishData(offset, frame)
  return frame
}
