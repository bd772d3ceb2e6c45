import { limits } from '../../config/limits.ts'
import type { CutPart } from '../../core/snapshots/packed-form.ts'
import type { PackPoint } from '../../core/snapshots/record.ts'
import type { Sha256 } from '../../core/ids.ts'
import { abortable } from '../../lib/abortable.ts'
import type { PackJob } from '../../ports/staging.ts'
import { open } from '../files/pool-files.ts'
import type { GatedFile } from '../files/gated-file.ts'
import type { ThreadSource } from '../threads/task-thread.ts'
import { ImageDigest, PartDigest } from './digests.ts'
import { framesOf } from './image-frames.ts'
import type { ImageFrame } from './image-frames.ts'
import { CompressThreads, PackThread } from './pack-threads.ts'
import { NotAsSaid, PackedFiles } from './packed-files.ts'
import { PartsToTake } from './parts-to-take.ts'
import type { Unwanted } from './thread-tasks.ts'

export type Packing = {
  readonly job: PackJob
  readonly paths: { readonly clone: string; readonly packed: string; readonly entries: string }
  readonly threads: CompressThreads
  readonly threadSource: ThreadSource
  readonly level: number
  readonly frameBytes: number
}

export type Packed = { readonly storedBytes: number; readonly sha256: Sha256 }

/** How many frames a thread has queued, including the one that it compresses. */
const FRAMES_PER_THREAD = 2
/** How many frames may wait for an earlier one. Most of them are holes, which take no thread. */
const FRAMES_WAITING_MAX = 64

/** Packs a clone, from the point it has reached. When this settles, no file is open, and no thread reads one. */
export async function pack(packing: Packing, signal: AbortSignal): Promise<Packed> {
  const clone = await open(packing.paths.clone, 'r')
  try {
    const { size } = await clone.stat()
    const { job, paths } = packing
    const { imageBytes, storedBytes } = job.from
    const behind = imageBytes < size && storedBytes < job.parts * job.partBytes
    if (imageBytes > size || behind) throw new NotAsSaid(`the clone has ${size} bytes`)
    const { files, parts } = await PackedFiles.takeUp(paths, job.from, job.partBytes)
    try {
      const hasher = new PackThread(packing.threadSource)
      try {
        const packRun = new PackRun(packing, { clone, imageBytes: size, files, hasher }, signal)
        return await packing.threads.use(() => packRun.run(parts))
      } finally {
        await hasher.end()
      }
    } finally {
      await files.close()
    }
  } finally {
    await clone.close()
  }
}

type Opened = {
  readonly clone: GatedFile
  readonly imageBytes: number
  readonly files: PackedFiles
  readonly hasher: PackThread
}

type Coming = { readonly frame: ImageFrame; readonly packed: Promise<Uint8Array<ArrayBuffer>> }

class PackRun {
  readonly #packing: Packing
  readonly #clone: GatedFile
  readonly #imageBytes: number
  readonly #files: PackedFiles
  readonly #imageDigest: ImageDigest
  readonly #partDigest: PartDigest
  readonly #toTake: PartsToTake
  readonly #signal: AbortSignal
  readonly #coming: Coming[] = []
  /**
   * The compressed holes by their size: one for all holes of a full frame, and one if the image ends in the middle of a
   * frame.
   */
  readonly #holes = new Map<number, Promise<Uint8Array<ArrayBuffer>>>()
  readonly #unwanted: Unwanted = new Int32Array(new SharedArrayBuffer(4))
  #compressing = 0

  constructor(packing: Packing, { clone, imageBytes, files, hasher }: Opened, signal: AbortSignal) {
    const { job } = packing
    this.#packing = packing
    this.#clone = clone
    this.#imageBytes = imageBytes
    this.#files = files
    this.#imageDigest = new ImageDigest({ thread: hasher, file: clone, imageBytes })
    this.#partDigest = new PartDigest({ thread: hasher, fd: files.fd, from: job.parts * job.partBytes })
    this.#toTake = new PartsToTake(job.onPart, () => files.sync(), signal)
    this.#signal = this.#toTake.signal
  }

  async run(parts: readonly CutPart[]): Promise<Packed> {
    try {
      await this.#give(parts, this.#packing.job.from)
      await this.#packFrames()
      const rest = await this.#files.finish()
      await this.#give(rest, this.#files.point)
      const sha256 = await abortable(this.#imageDigest.digest(), this.#signal)
      await this.#toTake.end()
      return { storedBytes: this.#files.point.storedBytes, sha256 }
    } catch (error) {
      throw this.#toTake.reasonOf(error)
    } finally {
      Atomics.store(this.#unwanted, 0, 1)
      await Promise.allSettled(this.#coming.map(({ packed }) => packed))
      await this.#imageDigest.end()
      await this.#toTake.settled()
    }
  }

  async #packFrames(): Promise<void> {
    const { frameBytes } = this.#packing
    const range = { from: this.#files.point.imageBytes, to: this.#imageBytes, frameBytes }
    const compressingMax = this.#packing.threads.count * FRAMES_PER_THREAD
    this.#imageDigest.upTo(range.from)
    for await (const frame of framesOf(this.#clone, range)) {
      while (this.#compressing >= compressingMax || this.#coming.length >= FRAMES_WAITING_MAX)
        await this.#takeFrame()
      const packed = this.#compress(frame)
      // `#takeFrame` waits for it and reports its failure.
      packed.catch(() => {})
      this.#coming.push({ frame, packed })
      this.#imageDigest.upTo(frame.from + frame.bytes)
    }
    while (this.#coming.length > 0) await this.#takeFrame()
  }

  #compress(frame: ImageFrame): Promise<Uint8Array<ArrayBuffer>> {
    const { threads, level } = this.#packing
    const terms = { level, unwanted: this.#unwanted }
    const stretch = { fd: this.#clone.fd, from: frame.from, bytes: frame.bytes }
    if (!frame.hole) {
      this.#compressing += 1
      return threads.compress(stretch, terms)
    }
    let packed = this.#holes.get(frame.bytes)
    if (packed === undefined) {
      packed = threads.compress(stretch, terms)
      this.#holes.set(frame.bytes, packed)
    }
    return packed
  }

  /** Waits for the next frame of the image, and appends it. */
  async #takeFrame(): Promise<void> {
    this.#signal.throwIfAborted()
    const { frame, packed } = this.#coming[0] as Coming
    const bytes = await packed
    this.#coming.shift()
    if (!frame.hole) this.#compressing -= 1
    this.#signal.throwIfAborted()
    const parts = await this.#files.append(bytes, frame.bytes)
    // Freed now, and not by the garbage collector: until it ran, everything packed in a second would stay in memory.
    if (!frame.hole) bytes.buffer.transfer(0)
    await this.#give(parts, this.#files.point)
  }

  async #give(parts: readonly CutPart[], next: PackPoint): Promise<void> {
    const { job } = this.#packing
    const newParts = parts.filter(({ number }) => number > job.parts)
    if (newParts.length > 0) await this.#files.flush()
    for (const part of newParts) {
      const digests = this.#partDigest.end(part.offsetBytes + part.bytes)
      this.#toTake.add(part, digests, next)
    }
    this.#partDigest.upTo(Math.min(this.#files.writtenBytes, this.#files.partEndBytes))
    await this.#toTake.untilRoom(this.#files.point.storedBytes, limits.packAheadBytes)
  }
}
