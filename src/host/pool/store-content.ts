import { createHash } from 'node:crypto'
import { ftruncate, write } from 'node:fs'
import { promisify } from 'node:util'
import { HostFault } from '../../core/errors.ts'
import type { Sha256 } from '../../core/vm/ids.ts'
import { unpacked } from './content.ts'
import { SparseFile } from './sparse-file.ts'
import type { SparseTarget } from './sparse-file.ts'

export type StoreTerms = {
  /** Of what is stored. */
  readonly sha256: Sha256
  /** Nothing longer is stored. */
  readonly bytesMax: number
}

export type Storing = StoreTerms & {
  /** Empty and open. */
  readonly fd: number
  /** Whether zstd frames come, of which the content is stored. */
  readonly unpacks: boolean
  /** Told how far the file is written. */
  readonly onWritten: (bytes: number) => void
}

/** Stores what comes in a file, and verifies it on the way. Each chunk must be good until the next is asked for. */
export async function storeContent(chunks: AsyncIterator<Uint8Array>, storing: Storing): Promise<void> {
  const { fd, sha256, unpacks, bytesMax, onWritten } = storing
  const file = new SparseFile(openTarget(fd))
  try {
    const hash = createHash('sha256')
    let bytes = 0
    for await (const piece of unpacks ? unpacked(chunks) : all(chunks)) {
      bytes += piece.length
      if (bytes > bytesMax) throw tooLong(bytesMax)
      await file.write(piece)
      hash.update(piece)
      onWritten(file.writtenBytes)
    }
    await file.finish()
    const digest = hash.digest('hex')
    if (digest === sha256) return
    throw integrity(`${unpacks ? 'the SHA-256 of what it unpacks to' : 'its SHA-256'} is ${digest}`)
  } finally {
    await file.settle()
  }
}

/** A file that the other thread has open, and closes. What hangs here has the place of a fetch (`limits.imageFetchesMax`). */
const openTarget = (fd: number): SparseTarget => ({
  write: async (bytes, offset, length, position) => ({
    bytesWritten: (await writeAt(fd, bytes, offset, length, position)).bytesWritten,
  }),
  truncate: (bytes) => setSize(fd, bytes),
})

const writeAt = promisify(write)
const setSize = promisify(ftruncate)

const all = (chunks: AsyncIterator<Uint8Array>): AsyncIterable<Uint8Array> => ({
  [Symbol.asyncIterator]: () => chunks,
})

const MIB = 1024 * 1024

export const tooLong = (bytesMax: number): HostFault => {
  const cause = new Error(`it has more than the ${bytesMax / MIB} MiB that this host takes`)
  return new HostFault('image_unavailable', 'receiving it', { cause })
}

const integrity = (why: string): HostFault =>
  new HostFault('image_integrity_failed', 'verifying it', { cause: new Error(why) })
