import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { HostFault } from '../../src/core/errors.ts'
import type { PackedPart, PackPoint, StagingId } from '../../src/core/snapshots/record.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { PackJob, Staging } from '../../src/ports/staging.ts'

/** Staging under test, and its surroundings. */
export type StagingStage = {
  readonly staging: Staging
  /** Makes a VM's disk of some bytes, with a hole up to its size. */
  readonly makeDisk: (id: VmId, content: Uint8Array, sizeBytes: number) => Promise<void> | void
  /** The guest writes to the beginning of its disk. */
  readonly writeDisk: (id: VmId, bytes: Uint8Array) => Promise<void> | void
  /** Cuts off packed data, as a damaged file system does. */
  readonly cutPacked: (id: StagingId, bytes: number) => Promise<void> | void
  /** Returns the same pool after a restart of the daemon. */
  readonly reopen: () => Staging
  /** Hides the pool, as an unmount does, or brings it back. */
  readonly setInSight: (inSight: boolean) => Promise<void> | void
}

export const MIB = 1024 * 1024
export const vm = 'web-1' as VmId
export const staged = '3f1c6a52-staged' as StagingId
export const other = '88ab02d1-other' as StagingId
export const never = new AbortController().signal
export const START: PackPoint = { imageBytes: 0, storedBytes: 0 }
/** Small part sizes, so that a small image has several parts. */
export const PART_BYTES = 3 * MIB

/** Bytes that do not compress, with stretches of zeros that do. */
export const content = (): Buffer =>
  Buffer.concat([randomBytes(5 * MIB + 77), Buffer.alloc(6 * MIB), randomBytes(4 * MIB)])
/** Size that is not a multiple of a frame, a part, or a block of a file system. */
export const SIZE_BYTES = 33 * MIB + 513

export const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

/** Parts that a pack handed over, in order. */
export type Taken = { readonly part: PackedPart; readonly next: PackPoint }

export type PackResult = Awaited<ReturnType<Staging['pack']>> & { readonly taken: readonly Taken[] }

export async function packed(staging: Staging, changes: Partial<PackJob> = {}): Promise<PackResult> {
  const taken: Taken[] = []
  const onPart = async (part: PackedPart, next: PackPoint): Promise<void> => void taken.push({ part, next })
  const job = { stagingId: staged, from: START, parts: 0, partBytes: PART_BYTES, onPart, ...changes }
  return { ...(await staging.pack(job, never)), taken }
}

/** Reads the bytes of a part, as they are sent. */
export async function read(
  staging: Staging,
  part: Pick<PackedPart, 'offsetBytes' | 'bytes'>,
): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of staging.partBody(staged, part).chunks(never)) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}

/** Assembles the image that a client receives from these parts. Checks the digests of each, as a store does. */
export async function object(staging: Staging, taken: readonly Taken[]): Promise<Buffer> {
  const sent = await Promise.all(taken.map(({ part }) => read(staging, part)))
  for (const [index, bytes] of sent.entries()) {
    const { part } = taken[index] as Taken
    assert.equal(digest('md5', bytes), part.md5, `part ${part.number}`)
    assert.equal(digest('sha256', bytes), part.sha256, `part ${part.number}`)
  }
  return Buffer.concat(sent)
}

export const digest = (algorithm: string, bytes: Uint8Array): string =>
  createHash(algorithm).update(bytes).digest('hex')

export function imageOf(bytes: Uint8Array, sizeBytes = SIZE_BYTES): Buffer {
  const image = Buffer.alloc(sizeBytes)
  image.set(bytes)
  return image
}

/** Clones the VM's disk, and keeps the clone. */
export async function capture(
  staging: Staging,
  stagingId = staged,
): Promise<{ readonly imageBytes: number }> {
  await staging.clone(stagingId, vm)
  return staging.keep(stagingId)
}

/** Captures a disk, and returns its image. */
export async function captured({ staging, makeDisk }: StagingStage): Promise<Buffer> {
  const bytes = content()
  await makeDisk(vm, bytes, SIZE_BYTES)
  assert.deepEqual(await capture(staging), { imageBytes: SIZE_BYTES })
  return imageOf(bytes)
}
