import { crc32 } from 'node:zlib'
import { crc32AfterZeros } from '../../core/storage/crc32-zeros.ts'
import type { GatedFile } from './gated-file.ts'

/** One read, and one turn of the event loop: an eighth of a millisecond of checksum. Holes within are read as zeros. */
const READ_BYTES = 512 * 1024

type Bytes = Buffer<ArrayBuffer>
type Extent = { readonly from: number; readonly to: number }
type Read = { readonly from: number; readonly bytes: Bytes }

/** A file that was promised to have so many bytes ends before. */
export class FileCutShort extends Error {
  override readonly name = 'FileCutShort'
}

/** How far a file was read, and the CRC-32 of so many bytes. */
export type ChecksumProgress = { bytes: number; crc32: number }

/**
 * The CRC-32 of a file's first `lengthBytes` bytes. Holes count as the zeros that they read as, and where they are large
 * they are not read: so it does not matter what the file system tells as holes. Throws what reading throws, and FileCutShort
 * where data that was there is gone when it is read. It begins where `progress` stands, and moves that on.
 */
export async function checksumOf(
  handle: GatedFile,
  lengthBytes: number,
  signal: AbortSignal,
  progress: ChecksumProgress = { bytes: 0, crc32: 0 },
): Promise<number> {
  const pieces = piecesOf(handle, progress.bytes, lengthBytes)
  const readOn = async (buffer: Bytes): Promise<Read | undefined> => {
    const { value: piece } = await pieces.next()
    return piece && { from: piece.from, bytes: await readWhole(handle, buffer, piece) }
  }
  // One read ahead. More win nothing.
  let [free, next] = [Buffer.allocUnsafe(READ_BYTES), Buffer.allocUnsafe(READ_BYTES)]
  let reading = readOn(free)
  try {
    for (;;) {
      const read = await reading
      if (read === undefined) return crc32AfterZeros(progress.crc32, lengthBytes - progress.bytes)
      signal.throwIfAborted()
      ;[free, next] = [next, free]
      reading = readOn(free)
      const before = crc32AfterZeros(progress.crc32, read.from - progress.bytes)
      progress.crc32 = crc32(read.bytes, before)
      progress.bytes = read.from + read.bytes.length
    }
  } finally {
    // The descriptor is in use until then.
    await reading.catch(() => {})
  }
}

/** What of a file may be data, in pieces to be read at once. */
async function* piecesOf(
  handle: GatedFile,
  fromBytes: number,
  lengthBytes: number,
): AsyncGenerator<Extent, undefined> {
  let areToldHoles = true
  for (let at = fromBytes; at < lengthBytes;) {
    const data: number | undefined = areToldHoles ? await handle.dataFrom(at) : undefined
    areToldHoles = data !== undefined
    const from = Math.min(data ?? at, lengthBytes)
    at = Math.min(from + READ_BYTES, lengthBytes)
    if (from < at) yield { from, to: at }
  }
  return undefined
}

async function readWhole(handle: GatedFile, buffer: Bytes, { from, to }: Extent): Promise<Bytes> {
  let filled = 0
  while (filled < to - from) {
    const { bytesRead } = await handle.read(buffer, filled, to - from - filled, from + filled)
    if (bytesRead === 0) throw new FileCutShort('the file was cut short while it was read')
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}
