import { crc32 } from 'node:zlib'
import { crc32AfterZeros } from '../../core/saved/crc32-zeros.ts'
import type { GatedFile } from './gated-file.ts'

/**
 * The bytes of one read, which is one turn of the event loop: the checksum takes an eighth of a millisecond. Holes
 * inside are read as zeros.
 */
const READ_BYTES = 512 * 1024

type Bytes = Buffer<ArrayBuffer>
type Extent = { readonly from: number; readonly to: number }
type Read = { readonly from: number; readonly bytes: Bytes }

/** Thrown when a file ends before the number of bytes that it should have. */
export class FileCutShort extends Error {
  override readonly name = 'FileCutShort'
}

/** How many bytes of a file were read, and the CRC-32 of those bytes. */
export type ChecksumProgress = { bytes: number; crc32: number }

/**
 * Computes the CRC-32 of a file's first `lengthBytes` bytes. A hole counts as zeros, and a large hole is not read. So
 * the result does not depend on which holes the file system reports. It starts at `progress` and advances it. Throws
 * what reading throws, and FileCutShort if data disappeared before it was read.
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
  // Reads one piece ahead. More than one gains nothing.
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
    // The read uses the descriptor until it ends.
    await reading.catch(() => {})
  }
}

/** Yields the stretches of a file that may contain data, in pieces of one read each. */
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
