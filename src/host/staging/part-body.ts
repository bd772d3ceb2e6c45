import { limits } from '../../config/limits.ts'
import type { PackedPart } from '../../core/snapshots/record.ts'
import { open } from '../files/pool-files.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { NotAsSaid } from './packed-files.ts'

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
