import { limits } from '../../config/limits.ts'
import { FRAME_HEAD_BYTES } from '../../core/migration/frames.ts'
import { FileCutShort } from '../files/checksum.ts'
import type { Extent } from '../../core/migration/extents.ts'
import type { FrameWriter } from '../../core/migration/frames.ts'
import type { GatedFile } from '../files/gated-file.ts'
import type { SkippedBytes } from './skipped-bytes.ts'

/** Extents whose data is read with one call, from the first of it to the last. */
export type ExtentGroup = {
  readonly extents: readonly Extent[]
  readonly from: number
  readonly to: number
}

/**
 * Yields extents in groups, because a guest often writes many small stretches near each other. The bytes between two of
 * a group are read and not used.
 */
export async function* groupsOf(extents: AsyncIterable<Extent>): AsyncGenerator<ExtentGroup, void> {
  let group: Extent[] = []
  let data: { readonly from: number; readonly to: number } | undefined
  const grouped = (): ExtentGroup => ({ extents: group, ...(data ?? { from: 0, to: 0 }) })
  for await (const extent of extents) {
    if (group.length > 0 && !fits(extent, data, group.length)) {
      yield grouped()
      group = []
      data = undefined
    }
    group.push(extent)
    if (extent.kind === 'data')
      data = { from: data?.from ?? extent.offset, to: extent.offset + extent.length }
  }
  if (group.length > 0) yield grouped()
}

function fits(
  { kind, offset, length }: Extent,
  data: { readonly from: number; readonly to: number } | undefined,
  count: number,
): boolean {
  if (count === limits.roundGroupExtentsMax) return false
  if (kind === 'hole' || data === undefined) return true
  return (
    offset - data.to <= limits.roundGapBytesMax && offset + length - data.from <= limits.roundFrameBytesMax
  )
}

export type FrameStream = {
  readonly file: GatedFile
  /** In ascending order, and not longer than a frame. */
  readonly extents: AsyncIterable<Extent>
  readonly writer: FrameWriter
  /** Frames that begin before this offset are counted and not yielded. */
  readonly from: number
  readonly skipped: Pick<SkippedBytes, 'spend'>
  /** Called after each frame with the offset of its end. */
  readonly onFrame: (end: number) => void
  readonly signal: AbortSignal
}

type Bytes = Buffer<ArrayBuffer>

/** A group, and the room for its bytes and its frames. */
class GroupRoom {
  readonly #bytes: Bytes = Buffer.allocUnsafe(limits.roundFrameBytesMax)
  readonly #frames: Bytes = Buffer.allocUnsafe(
    limits.roundFrameBytesMax + limits.roundGroupExtentsMax * FRAME_HEAD_BYTES,
  )
  #group: ExtentGroup = { extents: [], from: 0, to: 0 }
  /** Whether the bytes were read to their place in the only frame. */
  #isInPlace = false

  async read(file: GatedFile, group: ExtentGroup): Promise<void> {
    this.#group = group
    this.#isInPlace = group.extents.length === 1
    const room = this.#isInPlace ? this.#frames.subarray(FRAME_HEAD_BYTES) : this.#bytes
    const length = group.to - group.from
    for (let filled = 0; filled < length;) {
      const { bytesRead } = await file.read(room, filled, length - filled, group.from + filled)
      if (bytesRead === 0) throw new FileCutShort('the file was cut short while it was read')
      filled += bytesRead
    }
  }

  /** Renders the frames of the group. Returns those that begin at `from` or later, and the bytes of the others. */
  render({ writer, from, onFrame }: FrameStream): { readonly frames: Bytes; readonly skipped: number } {
    let at = 0
    let begin = 0
    for (const { kind, offset, length } of this.#group.extents) {
      if (kind === 'hole') {
        const frame = writer.hole({ offset, length })
        this.#frames.set(frame, at)
        at += frame.length
      } else {
        const frame = this.#frames.subarray(at, at + FRAME_HEAD_BYTES + length)
        const read = offset - this.#group.from
        if (!this.#isInPlace) frame.set(this.#bytes.subarray(read, read + length), FRAME_HEAD_BYTES)
        writer.finishData(offset, frame)
        at += frame.length
      }
      onFrame(offset + length)
      if (offset < from) begin = at
    }
    return { frames: this.#frames.subarray(begin, at), skipped: begin }
  }
}

/**
 * Yields frames of a file, and their end. It reads one group of frames ahead. Each chunk is valid until the next one is
 * requested. Throws FileCutShort if the file ends before an extent does.
 */
export async function* framesOf(stream: FrameStream): AsyncGenerator<Uint8Array, void> {
  const { file, extents, writer, signal } = stream
  const groups = groupsOf(extents)
  const readOn = async (room: GroupRoom): Promise<GroupRoom | undefined> => {
    const next = await groups.next()
    if (next.done === true) return undefined
    await room.read(file, next.value)
    return room
  }
  let [free, full] = [new GroupRoom(), new GroupRoom()]
  let reading = readOn(free)
  try {
    for (;;) {
      const read = await reading
      signal.throwIfAborted()
      if (read === undefined) break
      ;[free, full] = [full, free]
      reading = readOn(free)
      // The caller may stop before it needs this group.
      reading.catch(() => {})
      const { frames, skipped } = read.render(stream)
      if (skipped > 0) await stream.skipped.spend(skipped, signal)
      if (frames.length > 0) yield frames
    }
  } finally {
    // The read uses the descriptor until it ends.
    await reading.catch(() => {})
  }
  yield writer.end()
}
