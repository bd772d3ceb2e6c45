import { constants, createZstdDecompress } from 'node:zlib'
import { HostFault } from '../../core/errors.ts'
import type { ZstdDecompress } from 'node:zlib'

/**
 * The first bytes of a frame, and of a skippable frame: 0x184D2A50 to 0x184D2A5F (RFC 8878, 3.1.1 and 3.1.2),
 * little-endian.
 */
const FRAME = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])
const SKIPPED = Buffer.from([0x2a, 0x4d, 0x18])
/** A frame that needs more memory than 2^27 bytes, 128 MiB, is refused. */
const WINDOW_LOG_MAX = 27
const PIECE_BYTES = 256 * 1024

/** The content that a source sends: an image as it is, or a compressed one. */
export type Content = {
  readonly kind: 'raw' | 'zstd'
  /** All bytes from the first on, including those that were inspected. */
  readonly sent: AsyncIterableIterator<Uint8Array>
}

/** Detects from the first bytes what is sent. File names and headers are not trusted. */
export async function contentOf(chunks: AsyncIterableIterator<Uint8Array>): Promise<Content> {
  let head: Uint8Array = new Uint8Array()
  while (head.length < FRAME.length) {
    const next = await chunks.next()
    if (next.done === true) break
    // A copy, because a chunk is valid only until the next one is requested.
    head =
      head.length === 0 && next.value.length >= FRAME.length ? next.value : Buffer.concat([head, next.value])
  }
  return { kind: isZstd(head) ? 'zstd' : 'raw', sent: after(head, chunks) }
}

const isZstd = (head: Uint8Array): boolean =>
  FRAME.equals(head.subarray(0, 4)) ||
  (((head[0] ?? 0) & 0xf0) === 0x50 && SKIPPED.equals(head.subarray(1, 4)))

async function* after(
  head: Uint8Array,
  chunks: AsyncIterableIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  if (head.length > 0) yield head
  yield* chunks
}

/**
 * Decompresses zstd frames. Each piece is valid until the next one is requested. Throws what the source throws. Throws
 * HostFault `image_integrity_failed` if the input is not a complete sequence of frames; the source then keeps its
 * position.
 */
export async function* unpacked(sent: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  const decoder = createZstdDecompress({
    chunkSize: PIECE_BYTES,
    params: { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG_MAX },
  })
  const fed = feed(decoder, sent)
  try {
    for await (const piece of decoder) {
      yield piece as Uint8Array
      release(piece as Uint8Array<ArrayBuffer>)
    }
  } catch (error) {
    const { failure } = await fed
    throw failure === undefined ? corrupt(codeOf(error)) : failure.error
  } finally {
    decoder.destroy()
  }
  // The decoder stops at the first thing that is not a frame, and does not report it.
  if ((await fed).bytes !== decoder.bytesWritten) throw corrupt('something follows its last frame')
}

/**
 * Frees a piece's memory now. Waiting for the garbage collector would take longer than decompressing. The decoder fills
 * a buffer to its end, in one piece or in several, and then takes another.
 */
function release({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): void {
  if (byteOffset + byteLength === buffer.byteLength) buffer.transfer(0)
}

type Fed = { readonly bytes: number; readonly failure?: { readonly error: unknown } }

/** Never rejects; if the source fails, the decoder fails too. */
async function feed(decoder: ZstdDecompress, sent: AsyncIterator<Uint8Array>): Promise<Fed> {
  let bytes = 0
  let taken = (_isOpen: boolean): void => {}
  // A decoder that fails in the middle of a chunk never calls back for that chunk.
  decoder.once('close', () => taken(false))
  try {
    for (;;) {
      const next = await sent.next()
      if (next.done === true) break
      bytes += next.value.length
      const { promise: isOpen, resolve } = Promise.withResolvers<boolean>()
      taken = resolve
      decoder.write(next.value, (error) => resolve(error === null || error === undefined))
      if (decoder.destroyed || !(await isOpen)) return { bytes }
    }
    decoder.end()
    return { bytes }
  } catch (error) {
    decoder.destroy(error instanceof Error ? error : new Error('the source failed'))
    return { bytes, failure: { error } }
  }
}

const corrupt = (why: string): HostFault =>
  new HostFault('image_integrity_failed', 'decompressing it', { cause: new Error(why) })

/** Returns a code such as ZSTD_error_corruption_detected as text. Z_BUF_ERROR means that the input ends too early. */
const codeOf = (error: unknown): string => {
  const { code } = (error ?? {}) as { code?: unknown }
  if (code === 'Z_BUF_ERROR') return 'it ends in the middle'
  return typeof code === 'string' ? code : 'it failed'
}
