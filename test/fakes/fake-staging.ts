import { createHash } from 'node:crypto'
import { constants, zstdCompressSync } from 'node:zlib'
import { limits } from '../../src/config/limits.ts'
import { HostFault } from '../../src/core/errors.ts'
import {
  PartCut,
  renderFrameEntry,
  renderSeekTableFoot,
  renderSeekTableHead,
  seekTableBytes,
} from '../../src/core/snapshots/packed-form.ts'
import type { CutPart, FrameSizes } from '../../src/core/snapshots/packed-form.ts'
import type { PackedPart, PackPoint, StagingId } from '../../src/core/snapshots/record.ts'
import type { Sha256, VmId } from '../../src/core/ids.ts'
import { abortable } from '../../src/lib/abortable.ts'
import type { PartBody } from '../../src/ports/object-store.ts'
import type { PackJob, Staged, Staging } from '../../src/ports/staging.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type StagingMethod =
  | 'flushDisk'
  | 'clone'
  | 'keep'
  | 'pack'
  | 'removeClone'
  | 'partBody'
  | 'discardPart'
  | 'remove'
  | 'list'

/** Content of a VM's disk: some bytes, and a hole up to its size. */
export type FakeDisk = { readonly content: Uint8Array; readonly sizeBytes: number }

export type FakeStagingOptions = {
  /** Returns the disk of a VM that `disks` does not have; undefined if it has none. */
  readonly diskOf?: (id: VmId) => FakeDisk | undefined
  readonly frameBytes?: number
}

type Frame = FrameSizes & { readonly bytes: Uint8Array }

/** Staged files of one snapshot. */
type Files = {
  clone?: FakeDisk
  frames: Frame[]
  /** All frames, and the seek table. */
  packed: Buffer
  /** Bytes of `packed` that outlive a loss of power. */
  flushedBytes: number
  /** Discarded parts, which no longer occupy space, by the offset where they began. */
  readonly discarded: Map<number, number>
}

/** A part, as it is sent and discarded. */
type Part = Pick<PackedPart, 'offsetBytes' | 'bytes'>

const MIB = 1024 * 1024

/** Staging in memory. It outlives the daemon: the next one is given the same object. */
export class FakeStaging implements Staging {
  /** Disks that tests fill. */
  readonly disks = new Map<VmId, FakeDisk>()
  readonly #files = new Map<StagingId, Files>()
  /** Clones that are not kept yet. */
  readonly #cloned = new Map<StagingId, FakeDisk>()
  readonly #diskOf: (id: VmId) => FakeDisk | undefined
  readonly #frameBytes: number
  readonly #faults = new FaultSwitch<StagingMethod>()
  #inSight = true
  #reflink = true

  constructor({ diskOf = () => undefined, frameBytes = MIB }: FakeStagingOptions = {}) {
    this.#diskOf = diskOf
    this.#frameBytes = frameBytes
  }

  failNext(method: StagingMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Lets the next call wait until the returned function is called, or until it is aborted. */
  holdNext(method: StagingMethod): () => void {
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

  /** The daemon died: the next one finds only the clones that were kept. */
  restart(): void {
    this.#cloned.clear()
  }

  /** Loses everything that was not flushed. The daemon died with it. */
  losePower(): void {
    this.restart()
    for (const files of this.#files.values()) {
      files.packed = files.packed.subarray(0, files.flushedBytes)
      let storedBytes = 0
      files.frames = files.frames.filter((frame) => {
        storedBytes += frame.storedBytes
        return storedBytes <= files.flushedBytes
      })
    }
  }

  /** Cuts off packed data of a snapshot, as a damaged file system does. */
  cutPacked(stagingId: StagingId, bytes: number): void {
    const files = this.#at(stagingId)
    files.packed = files.packed.subarray(0, bytes)
  }

  /** Changes a packed byte of a snapshot, as a bad disk does. */
  damagePacked(stagingId: StagingId, at: number): void {
    const { packed } = this.#at(stagingId)
    packed[at] = (packed[at] ?? 0) ^ 1
  }

  flushDisk(id: VmId, signal: AbortSignal): Promise<void> {
    return this.#faults.run('flushDisk', () => void this.#disk(id, 'flushing'), signal)
  }

  clone(stagingId: StagingId, id: VmId): Promise<void> {
    return this.#faults.run('clone', () => {
      const { content, sizeBytes } = this.#disk(id, 'capturing')
      if (!this.#reflink) throw new HostFault('snapshot_unsupported', `capturing the disk of VM ${id}`)
      this.#cloned.set(stagingId, { content: Uint8Array.from(content), sizeBytes })
    })
  }

  keep(stagingId: StagingId): Promise<{ readonly imageBytes: number }> {
    return this.#faults.run('keep', () => {
      this.#look()
      const clone = this.#cloned.get(stagingId)
      if (clone === undefined) throw lost(stagingId)
      this.#cloned.delete(stagingId)
      const none = {
        frames: [],
        packed: Buffer.alloc(0),
        flushedBytes: 0,
        discarded: new Map<number, number>(),
      }
      this.#files.set(stagingId, { clone, ...none })
      return { imageBytes: clone.sizeBytes }
    })
  }

  pack(
    job: PackJob,
    signal: AbortSignal,
  ): Promise<{ readonly storedBytes: number; readonly sha256: Sha256 }> {
    return this.#faults.run('pack', () => this.#pack(job, signal), signal)
  }

  async #pack(job: PackJob, signal: AbortSignal): Promise<{ storedBytes: number; sha256: Sha256 }> {
    this.#look()
    const files = this.#at(job.stagingId)
    const { clone } = files
    if (clone === undefined) throw lost(job.stagingId)
    const cut = new PartCut(job.partBytes)
    const give = async (parts: readonly CutPart[], next: PackPoint): Promise<void> => {
      for (const part of parts.filter(({ number }) => number > job.parts)) {
        files.flushedBytes = next.storedBytes
        // As in the driver, the threads of a pack outlive the turn that aborts it.
        signal.throwIfAborted()
        await abortable(job.onPart({ ...part, ...digestsOf(files.packed, part) }, next), signal)
        signal.throwIfAborted()
      }
    }
    await give(takeUp(files, job, cut), job.from)
    while (cut.point.imageBytes < clone.sizeBytes) {
      const frame = frameOf(clone, cut.point.imageBytes, this.#frameBytes)
      files.frames.push(frame)
      files.packed = Buffer.concat([files.packed, frame.bytes])
      const whole = cut.add(frame.storedBytes, frame.imageBytes)
      await give(whole, cut.point)
    }
    const table = seekTableOf(files.frames)
    if (files.packed.length === cut.point.storedBytes) files.packed = Buffer.concat([files.packed, table])
    const parts = [...cut.add(table.length, 0)]
    const last = cut.end()
    if (last !== undefined) parts.push(last)
    await give(parts, cut.point)
    return { storedBytes: cut.point.storedBytes, sha256: sha256Of(clone) }
  }

  removeClone(stagingId: StagingId): Promise<void> {
    return this.#faults.run('removeClone', () => {
      this.#look()
      delete this.#files.get(stagingId)?.clone
    })
  }

  partBody(stagingId: StagingId, { offsetBytes, bytes }: Part): PartBody {
    const read = (at: number, length: number): Uint8Array => {
      this.#look()
      const chunk = this.#files.get(stagingId)?.packed.subarray(at, at + length)
      if (chunk?.length !== length) throw lost(stagingId)
      return Uint8Array.from(chunk)
    }
    const run = (effect: () => Uint8Array, signal: AbortSignal): Promise<Uint8Array> =>
      this.#faults.run('partBody', effect, signal)
    return {
      bytes,
      async *chunks(signal) {
        for (let at = offsetBytes; at < offsetBytes + bytes; at += limits.sendChunkBytes) {
          const length = Math.min(limits.sendChunkBytes, offsetBytes + bytes - at)
          yield await run(() => read(at, length), signal)
        }
      },
    }
  }

  discardPart(stagingId: StagingId, { offsetBytes, bytes }: Part): Promise<void> {
    return this.#faults.run('discardPart', () => {
      this.#look()
      const files = this.#files.get(stagingId)
      if (files === undefined) return
      files.packed.fill(0, offsetBytes, offsetBytes + bytes)
      files.discarded.set(offsetBytes, bytes)
    })
  }

  remove(stagingId: StagingId): Promise<void> {
    return this.#faults.run('remove', () => {
      this.#look()
      this.#files.delete(stagingId)
      this.#cloned.delete(stagingId)
    })
  }

  list(): Promise<readonly Staged[]> {
    return this.#faults.run('list', () => {
      this.#look()
      return [...this.#files].map(([stagingId, { clone, packed, discarded }]) => ({
        stagingId,
        packedBytes: packed.length - [...discarded.values()].reduce((sum, bytes) => sum + bytes, 0),
        cloneBytes: clone?.content.length ?? 0,
      }))
    })
  }

  #disk(id: VmId, doing: string): FakeDisk {
    this.#look()
    const disk = this.disks.get(id) ?? this.#diskOf(id)
    if (disk === undefined) throw new HostFault('disk_missing', `${doing} the disk of VM ${id}`)
    return disk
  }

  #at(stagingId: StagingId): Files {
    const files = this.#files.get(stagingId)
    if (files === undefined) throw lost(stagingId)
    return files
  }

  #look(): void {
    if (!this.#inSight) throw new HostFault('storage_inspection_failed', 'looking for the storage pool')
  }
}

const lost = (stagingId: StagingId): HostFault =>
  new HostFault('staging_lost', `packing snapshot staging ${stagingId}`)

/**
 * Discards the data after the point where packing continues, and adds the data before it. Returns the parts of the
 * latter.
 */
function takeUp(files: Files, { stagingId, from }: PackJob, cut: PartCut): readonly CutPart[] {
  const parts: CutPart[] = []
  let count = 0
  for (; cut.point.imageBytes < from.imageBytes; count += 1) {
    const frame = files.frames[count]
    if (frame === undefined) throw lost(stagingId)
    parts.push(...cut.add(frame.storedBytes, frame.imageBytes))
  }
  const tableBytes = from.storedBytes - cut.point.storedBytes
  const whole = tableBytes === 0 || tableBytes === seekTableBytes(count)
  if (!whole || files.packed.length < from.storedBytes) throw lost(stagingId)
  files.frames = files.frames.slice(0, count)
  files.packed = files.packed.subarray(0, from.storedBytes)
  return parts
}

function frameOf({ content, sizeBytes }: FakeDisk, from: number, frameBytes: number): Frame {
  const imageBytes = Math.min(frameBytes, sizeBytes - from)
  const isHole = from >= content.length
  const known = isHole ? HOLES.get(imageBytes) : undefined
  if (known !== undefined) return known
  const image = Buffer.alloc(imageBytes)
  image.set(content.subarray(from, from + imageBytes))
  const params = { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 }
  const bytes = zstdCompressSync(image, { params, chunkSize: 2 * imageBytes + MIB })
  const frame = { bytes, storedBytes: bytes.length, imageBytes }
  if (isHole) HOLES.set(imageBytes, frame)
  return frame
}

/** Frames by the number of bytes that they represent. */
const HOLES = new Map<number, Frame>()

const seekTableOf = (frames: readonly Frame[]): Buffer =>
  Buffer.concat([
    renderSeekTableHead(frames.length),
    ...frames.map(renderFrameEntry),
    renderSeekTableFoot(frames.length),
  ])

function digestsOf(packed: Buffer, { offsetBytes, bytes }: Part): Pick<PackedPart, 'md5' | 'sha256'> {
  const part = packed.subarray(offsetBytes, offsetBytes + bytes)
  const digest = (algorithm: string): string => createHash(algorithm).update(part).digest('hex')
  return { md5: digest('md5'), sha256: digest('sha256') }
}

function sha256Of({ content, sizeBytes }: FakeDisk): Sha256 {
  const hash = createHash('sha256').update(content)
  for (let at = content.length; at < sizeBytes; at += ZEROS.length)
    hash.update(ZEROS.subarray(0, Math.min(ZEROS.length, sizeBytes - at)))
  return hash.digest('hex') as Sha256
}

const ZEROS = Buffer.alloc(MIB)
