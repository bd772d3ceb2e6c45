import { constants } from 'node:fs'
import type { VmId } from '../../core/ids.ts'
import { open } from '../files/pool-files.ts'
import { changesOf } from '../rounds/changes.ts'
import { framesOf } from '../rounds/frame-stream.ts'
import type { KeptDigests, KeptOfVms } from '../rounds/kept-of-streams.ts'
import type { SkippedBytes } from '../rounds/skipped-bytes.ts'

export type MemoryStream = {
  readonly id: VmId
  readonly path: string
  readonly digests: KeptOfVms<KeptDigests>
  readonly skipped: SkippedBytes
  /** As in the port. */
  readonly from: number
  readonly signal: AbortSignal
}

/** Yields the frames of a published memory. Throws what reading throws, and FileCutShort. */
export async function* memoryFrames(stream: MemoryStream): AsyncGenerator<Uint8Array, void> {
  const { id, path, from, skipped, signal } = stream
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const { ino, ctimeNs, size } = await file.stat({ bigint: true })
    const digests = stream.digests.of(id, `${ino} of ${ctimeNs}`)
    const { end, writer } = digests.before(from)
    const extents = changesOf({ now: file, sizeBytes: Number(size) }, end, signal)
    const onFrame = (at: number): void => digests.note(at, writer)
    yield* framesOf({ file, extents, writer, from, skipped, onFrame, signal })
  } finally {
    await file.close()
  }
}
