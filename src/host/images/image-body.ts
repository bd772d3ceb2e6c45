import { MIB } from '../../lib/byte-units.ts'
import { abortable } from '../../lib/abortable.ts'
import type { GatedFile } from '../files/gated-file.ts'

const READ_BYTES = MIB

/** The bytes of an image as they arrive from any source. */
export type ImageBody = {
  /** Yields chunks, each valid until the next one is requested. Throws HostFault, and {@link SourceRestarted}. */
  chunks(): AsyncIterableIterator<Uint8Array>
  /** Releases the source, even in the middle of reading. */
  close(): Promise<void> | void
}

/** Thrown when the bytes received so far are useless. The body's next `chunks()` starts at the first byte again. */
export class SourceRestarted extends Error {}

/** Yields the content of a file. Each chunk is overwritten by the next. */
export async function* chunksOf(file: GatedFile): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(READ_BYTES)
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(buffer, 0, READ_BYTES, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

/** Returns chunks that somebody else receives, as the body of an image. */
export function givenBody(chunks: AsyncIterator<Uint8Array>, signal: AbortSignal): ImageBody {
  async function* read(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const next = await abortable(chunks.next(), signal)
      if (next.done === true) return
      yield next.value
    }
  }
  return { chunks: read, close: () => closeChunks(chunks) }
}

/** Releases the source of chunks. Does not wait for it: it may be waiting for a chunk. */
export function closeChunks(chunks: AsyncIterator<Uint8Array>): void {
  chunks.return?.().catch(() => {})
}
