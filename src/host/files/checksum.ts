import { callInThread, thisProgram } from '../ffi/koffi.ts'
import type { GatedFile } from './gated-file.ts'

/** The bytes of one read. Holes inside are read as zeros. */
const READ_BYTES = 1024 * 1024
/** Reads and checksums under way at a time: enough for two cores. */
const AT_A_TIME = 4

type Bytes = Buffer<ArrayBuffer>
type Extent = { readonly from: number; readonly to: number }
type Piece = Extent & { readonly crc32: number }

/** Thrown when a file ends before the number of bytes that it should have. */
export class FileCutShort extends Error {
  override readonly name = 'FileCutShort'
}

/** How many bytes of a file were read, and the CRC-32 of those bytes. */
export type ChecksumProgress = { bytes: number; crc32: number }

/**
 * Computes the CRC-32 of a file's first `lengthBytes` bytes, on other threads. A hole counts as zeros, and a large hole
 * is not read. So the result does not depend on which holes the file system reports. It starts at `progress` and
 * advances it. Throws what reading throws, and FileCutShort if data disappeared before it was read.
 */
export async function checksumOf(
  handle: GatedFile,
  lengthBytes: number,
  signal: AbortSignal,
  progress: ChecksumProgress = { bytes: 0, crc32: 0 },
): Promise<number> {
  const underWay: Promise<Piece>[] = []
  const buffers = Array.from({ length: AT_A_TIME }, () => Buffer.allocUnsafe(READ_BYTES))
  const finishOldest = async (): Promise<void> => {
    const piece = await underWay[0]
    if (piece === undefined) return
    void underWay.shift()
    signal.throwIfAborted()
    const before = crc32AfterZeros(progress.crc32, piece.from - progress.bytes)
    progress.crc32 = crc32Joined(before, piece.crc32, piece.to - piece.from)
    progress.bytes = piece.to
  }
  try {
    for await (const extent of extentsOf(handle, progress.bytes, lengthBytes)) {
      if (underWay.length === AT_A_TIME) await finishOldest()
      const buffer = buffers.shift() as Bytes
      buffers.push(buffer)
      const piece = pieceOf(handle, buffer, extent)
      // Reported when its turn comes.
      piece.catch(() => {})
      underWay.push(piece)
    }
    while (underWay.length > 0) await finishOldest()
    return crc32AfterZeros(progress.crc32, lengthBytes - progress.bytes)
  } finally {
    // They use the descriptor and the buffers until they end.
    await Promise.allSettled(underWay)
  }
}

/**
 * Node's own zlib, which it exports for addons (Node.js documentation, "Linking to libraries included with Node.js");
 * node:zlib computes on the thread that asks.
 */
const crc32 = thisProgram().func(
  'unsigned long crc32(unsigned long crc, const uint8_t *bytes, unsigned int length)',
)

async function pieceOf(handle: GatedFile, buffer: Bytes, extent: Extent): Promise<Piece> {
  const bytes = await readWhole(handle, buffer, extent)
  return { ...extent, crc32: await callInThread(crc32, 0, bytes, bytes.length) }
}

/**
 * Yields the stretches of a file that may contain data, in pieces of one read each. Looks for the next stretch while
 * the caller reads one.
 */
async function* extentsOf(
  handle: GatedFile,
  fromBytes: number,
  lengthBytes: number,
): AsyncGenerator<Extent, void> {
  let knowsHoles = true
  let looking = handle.dataFrom(fromBytes)
  try {
    for (let at = fromBytes; at < lengthBytes;) {
      const data: number | undefined = knowsHoles ? await looking : undefined
      if (knowsHoles && data === undefined && (await handle.isHoleToEnd(at))) return
      knowsHoles = data !== undefined
      const from = Math.min(data ?? at, lengthBytes)
      at = Math.min(from + READ_BYTES, lengthBytes)
      if (knowsHoles) looking = handle.dataFrom(at)
      // Reported when its turn comes.
      looking.catch(() => {})
      if (from < at) yield { from, to: at }
    }
  } finally {
    await Promise.allSettled([looking])
  }
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

/** The polynomial of CRC-32 as in gzip and PNG (RFC 1952, section 8), with the lowest power in the highest bit. */
const POLYNOMIAL = 0xedb8_8320
/** The polynomial x^0, in that order of bits. */
const ONE = 0x8000_0000
/** The polynomial x^8, by which one byte moves a CRC. */
const BYTE = ONE >>> 8

/**
 * Returns the CRC-32 of data followed by `count` zeros, from the CRC-32 of the data. So the hole of a file costs a few
 * hundred steps, however long it is. The register is the inverted CRC.
 */
export const crc32AfterZeros = (crc: number, count: number): number =>
  ~multiply(~crc >>> 0, factorOfBytes(count)) >>> 0

/** Returns the CRC-32 of two stretches of data, one behind the other, from their own; `count`: bytes of the second. */
const crc32Joined = (first: number, second: number, count: number): number =>
  (multiply(first, factorOfBytes(count)) ^ second) >>> 0

/** Returns x^(8 × `count`) modulo the polynomial: each byte multiplies the register by x^8. */
function factorOfBytes(count: number): number {
  let factor = ONE
  let square = BYTE
  // By division, because a file may have more bytes than an operator on bits can count.
  for (let left = count; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) factor = multiply(factor, square)
    square = multiply(square, square)
  }
  return factor
}

/** Multiplies two polynomials over GF(2), modulo that of CRC-32. */
function multiply(a: number, b: number): number {
  let product = 0
  let shifted = b
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if ((a & bit) !== 0) product ^= shifted
    shifted = (shifted & 1) === 0 ? shifted >>> 1 : (shifted >>> 1) ^ POLYNOMIAL
  }
  return product >>> 0
}
