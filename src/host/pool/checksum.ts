import type { FileHandle } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { crc32AfterZeros } from '../../core/storage/crc32-zeros.ts'
import { dataFrom } from '../ffi/sparse.ts'
import type { Extent } from '../ffi/sparse.ts'

/** One read, and one turn of the event loop: a quarter of a millisecond of checksum. */
const READ_BYTES = 1024 * 1024
/** Reads under way while one is waited for. More win nothing, and Node has only four threads for files. */
const READS_AHEAD = 1

type Bytes = Buffer<ArrayBuffer>
type Read = { readonly from: number; readonly buffer: Bytes; readonly done: Promise<Bytes> }

/** A file that was promised to have so many bytes ends before. */
export class FileCutShort extends Error {
  override readonly name = 'FileCutShort'
}

/**
 * The CRC-32 of a file's first `lengthBytes` bytes. Holes are not read, and count as the zeros that they read as: so it
 * does not matter what the file system tells as holes. Throws what reading throws, and FileCutShort
 * where data that was there is gone when it is read.
 */
export async function checksumOf(
  handle: FileHandle,
  lengthBytes: number,
  signal: AbortSignal,
): Promise<number> {
  const pieces = piecesOf(handle.fd, lengthBytes)
  const reads: Read[] = []
  const free = Array.from({ length: READS_AHEAD + 1 }, () => Buffer.allocUnsafe(READ_BYTES))
  const readOn = (): void => {
    const buffer = free.pop()
    if (buffer === undefined) return
    const { value: piece } = pieces.next()
    if (piece === undefined) return
    const done = readWhole(handle, buffer, piece)
    // Where an earlier read failed, nobody waits for this one.
    done.catch(() => {})
    reads.push({ from: piece.from, buffer, done })
  }
  for (let ahead = 0; ahead < READS_AHEAD; ahead += 1) readOn()
  let crc = 0
  let at = 0
  for (;;) {
    readOn()
    const read = reads.shift()
    if (read === undefined) return crc32AfterZeros(crc, lengthBytes - at)
    const bytes = await read.done
    signal.throwIfAborted()
    crc = crc32(bytes, crc32AfterZeros(crc, read.from - at))
    at = read.from + bytes.length
    free.push(read.buffer)
  }
}

/** The data of a file, in pieces to be read at once. */
function* piecesOf(fd: number, lengthBytes: number): Generator<Extent, undefined> {
  let at = 0
  while (at < lengthBytes) {
    const data = dataFrom(fd, at)
    if (data === undefined) return undefined
    const end = Math.min(data.to, lengthBytes)
    for (at = data.from; at < end; at += READ_BYTES) yield { from: at, to: Math.min(at + READ_BYTES, end) }
    at = end
  }
  return undefined
}

async function readWhole(handle: FileHandle, buffer: Bytes, { from, to }: Extent): Promise<Bytes> {
  let filled = 0
  while (filled < to - from) {
    const { bytesRead } = await handle.read(buffer, filled, to - from - filled, from + filled)
    if (bytesRead === 0) throw new FileCutShort('the file was cut short while it was read')
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}
