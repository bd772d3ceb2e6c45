import { dirname } from 'node:path'
import {
  PartCut,
  FRAME_ENTRY_BYTES,
  parseFrameEntries,
  renderFrameEntry,
  renderSeekTableFoot,
  renderSeekTableHead,
  seekTableBytes,
} from '../../core/snapshots/packed-form.ts'
import { sync } from '../files/durable.ts'
import { open } from '../files/pool-files.ts'
import { AppendedFile } from './appended-file.ts'
import { limits } from '../../config/limits.ts'
import type { CutPart } from '../../core/snapshots/packed-form.ts'
import type { PackPoint, PackedPart } from '../../core/snapshots/record.ts'
import type { GatedFile } from '../files/gated-file.ts'

/** Thrown when the files do not match the point from which packing must continue. */
export class NotAsSaid extends Error {
  override readonly name = 'NotAsSaid'
}

type TakenUp = {
  readonly files: PackedFiles
  /** The parts that are complete, from the first on. */
  readonly parts: readonly CutPart[]
}

const MODE = 0o600
const READ_BYTES = 64 * 1024

/**
 * The packed file, and beside it a file with the size of each frame: the entries of the seek table, which comes last.
 */
export class PackedFiles {
  readonly #packed: AppendedFile
  readonly #entries: AppendedFile
  readonly #cut: PartCut
  readonly #directory: string
  #areNamesSynced = false
  #frames = 0
  #framesEndBytes = 0

  private constructor(packed: AppendedFile, entries: AppendedFile, at: { cut: PartCut; directory: string }) {
    this.#packed = packed
    this.#entries = entries
    this.#cut = at.cut
    this.#directory = at.directory
  }

  /** Opens the files, and truncates them to a point. Throws NotAsSaid if their content does not match that point. */
  static async takeUp(
    paths: { readonly packed: string; readonly entries: string },
    from: PackPoint,
    partBytes: number,
  ): Promise<TakenUp> {
    const flags = from.storedBytes === 0 ? 'w+' : 'r+'
    const packed = await open(paths.packed, flags, MODE)
    try {
      const entries = await open(paths.entries, flags, MODE)
      try {
        const files = new PackedFiles(
          new AppendedFile(packed, from.storedBytes),
          new AppendedFile(entries, 0),
          { cut: new PartCut(partBytes), directory: dirname(paths.packed) },
        )
        return { files, parts: await files.#replay(entries, packed, from) }
      } catch (error) {
        await entries.close()
        throw error
      }
    } catch (error) {
      await packed.close()
      throw error
    }
  }

  get point(): PackPoint {
    return this.#cut.point
  }

  /** How much of the packed file is written. Bytes that were appended after that are not visible to others yet. */
  get writtenBytes(): number {
    return this.#packed.writtenBytes
  }

  /** The end of the part that is not complete yet. */
  get partEndBytes(): number {
    return this.#cut.partEndBytes
  }

  /** The descriptor of the packed file, for reading what is written. */
  get fd(): number {
    return this.#packed.fd
  }

  /** Appends a frame, and returns the parts that it completes. Some of their bytes may not be written yet. */
  async append(frame: Uint8Array, imageBytes: number): Promise<readonly CutPart[]> {
    const storedBytes = frame.length
    await this.#packed.append(frame)
    await this.#entries.append(renderFrameEntry({ storedBytes, imageBytes }))
    return this.#count(storedBytes, imageBytes)
  }

  /** Appends the seek table after the last frame. Returns the parts that were not complete before. */
  async finish(): Promise<readonly CutPart[]> {
    const bytes = seekTableBytes(this.#frames)
    if (this.#packed.bytes === this.#framesEndBytes) {
      await this.#entries.flush()
      await this.#packed.append(renderSeekTableHead(this.#frames))
      for await (const entries of this.#entries.read(READ_BYTES)) await this.#packed.append(entries)
      await this.#packed.append(renderSeekTableFoot(this.#frames))
    }
    const parts = this.#cut.add(bytes, 0)
    const last = this.#cut.end()
    return last === undefined ? parts : [...parts, last]
  }

  /** Writes what was appended, so that others can read it. */
  async flush(): Promise<void> {
    await this.#packed.flush()
    await this.#entries.flush()
  }

  /** Makes what was written survive a power failure. */
  async sync(): Promise<void> {
    await Promise.all([this.#packed.sync(), this.#entries.sync()])
    if (this.#areNamesSynced) return
    // Syncing a file does not have to sync its name (fsync(2)).
    await sync(this.#directory)
    this.#areNamesSynced = true
  }

  async close(): Promise<void> {
    await Promise.all([this.#packed.close(), this.#entries.close()])
  }

  #count(storedBytes: number, imageBytes: number): readonly CutPart[] {
    this.#frames += 1
    this.#framesEndBytes += storedBytes
    return this.#cut.add(storedBytes, imageBytes)
  }

  async #replay(entries: GatedFile, packed: GatedFile, from: PackPoint): Promise<CutPart[]> {
    const parts: CutPart[] = []
    replaying: for await (const bytes of this.#entries.read(READ_BYTES)) {
      for (const { storedBytes, imageBytes } of parseFrameEntries(bytes)) {
        if (this.point.imageBytes >= from.imageBytes) break replaying
        parts.push(...this.#count(storedBytes, imageBytes))
      }
    }
    const beyondFrames = from.storedBytes - this.#framesEndBytes
    const whole = beyondFrames === 0 || beyondFrames === seekTableBytes(this.#frames)
    if (this.point.imageBytes !== from.imageBytes || !whole)
      throw new NotAsSaid('the sizes of the frames are of another snapshot')
    const { size } = await packed.stat()
    if (size < from.storedBytes) throw new NotAsSaid(`it has ${size} bytes, not ${from.storedBytes}`)
    await packed.truncate(from.storedBytes)
    await entries.truncate(this.#frames * FRAME_ENTRY_BYTES)
    this.#entries.bytes = this.#frames * FRAME_ENTRY_BYTES
    return parts
  }
}

export type Part = Pick<PackedPart, 'offsetBytes' | 'bytes'>

/** Yields the bytes of a part, and reads one chunk ahead. Each chunk is valid until the next one is requested. */
export async function* chunksOf(
  path: string,
  { offsetBytes, bytes }: Part,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  signal.throwIfAborted()
  const file = await open(path, 'r')
  try {
    const end = offsetBytes + bytes
    const chunkBytes = limits.sendChunkBytes
    let [using, filling] = [Buffer.allocUnsafe(chunkBytes), Buffer.allocUnsafe(chunkBytes)]
    let coming = readWhole(file, filling, offsetBytes, end)
    for (let at = offsetBytes; at < end; at += chunkBytes) {
      const chunk = await coming
      signal.throwIfAborted()
      ;[using, filling] = [filling, using]
      coming = readWhole(file, filling, at + chunkBytes, end)
      // The caller may stop before it asks for this chunk.
      coming.catch(() => {})
      yield chunk
      signal.throwIfAborted()
    }
  } finally {
    // This waits for a read that is under way.
    await file.close()
  }
}

async function readWhole(file: GatedFile, buffer: Buffer, from: number, end: number): Promise<Buffer> {
  const length = Math.max(0, Math.min(buffer.length, end - from))
  for (let filled = 0; filled < length;) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, from + filled)
    if (bytesRead === 0) throw new NotAsSaid('what is packed ends before the part does')
    filled += bytesRead
  }
  return buffer.subarray(0, length)
}
