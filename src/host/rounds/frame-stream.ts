import { limits } from '../../config/limits.ts'
import { FRAME_HEAD_BYTES } from '../../core/migration/frames.ts'
import type { Extent } from '../../core/migration/extents.ts'
import type { FrameWriter } from '../../core/migration/frames.ts'
import { FileCutShort } from '../files/checksum.ts'
import type { GatedFile } from '../files/gated-file.ts'

type Bytes = Buffer<ArrayBuffer>
type Read = { readonly extent: Extent; readonly frame?: Bytes }

export type FrameStream = {
  readonly file: GatedFile
  /** In ascending order, and not longer than a frame. */
  readonly extents: AsyncIterator<Extent, void>
  readonly writer: FrameWriter
  /** Frames that begin before this offset are counted and not yielded. */
  readonly from: number
  /** Called after each frame with the offset of its end. */
  readonly onFrame: (end: number) => void
  readonly signal: AbortSignal
}

/**
 * Yields frames of a file, and their end. It reads one frame ahead. Each frame is valid until the next one is requested.
 * Throws FileCutShort if the file ends before an extent does.
 */
export async function* framesOf(stream: FrameStream): AsyncGenerator<Uint8Array, void> {
  const { file, extents, writer, from, onFrame, signal } = stream
  const readOn = async (frame: Bytes): Promise<Read | undefined> => {
    const next = await extents.next()
    if (next.done === true) return undefined
    const extent = next.value
    if (extent.kind === 'hole') return { extent }
    return { extent, frame: await readWhole(file, frame, extent) }
  }
  const room = (): Bytes => Buffer.allocUnsafe(FRAME_HEAD_BYTES + limits.roundFrameBytesMax)
  let [free, full] = [room(), room()]
  let reading = readOn(free)
  try {
    for (;;) {
      const read = await reading
      signal.throwIfAborted()
      if (read === undefined) break
      ;[free, full] = [full, free]
      reading = readOn(free)
      // The caller may stop before it needs this frame.
      reading.catch(() => {})
      const { extent, frame } = read
      if (frame !== undefined) writer.finishData(extent.offset, frame)
      const rendered = frame ?? writer.hole(extent)
      onFrame(extent.offset + extent.length)
      if (extent.offset >= from) yield rendered
    }
  } finally {
    // The read uses the descriptor until it ends.
    await reading.catch(() => {})
  }
  yield writer.end()
}

/** Reads an extent behind the room for the head of its frame. */
async function readWhole(file: GatedFile, room: Bytes, { offset, length }: Extent): Promise<Bytes> {
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await file.read(room, FRAME_HEAD_BYTES + filled, length - filled, offset + filled)
    if (bytesRead === 0) throw new FileCutShort('the file was cut short while it was read')
    filled += bytesRead
  }
  return room.subarray(0, FRAME_HEAD_BYTES + length)
}
