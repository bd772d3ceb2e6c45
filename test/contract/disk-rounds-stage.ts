import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { HostFault } from '../../src/core/errors.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'
import type { ArrivalId } from '../../src/core/migration/departure.ts'
import { FrameDecoder } from '../../src/core/migration/frame-decoder.ts'
import type { DiskState } from '../../src/core/world/world.ts'
import { streamChecks } from '../../src/host/rounds/stream-checks.ts'
import type { DiskRounds, IncomingDisks, Round, RoundRef } from '../../src/ports/disk-rounds.ts'

export type BothSides = { readonly rounds: DiskRounds; readonly incomingDisks: IncomingDisks }

/** Both sides under test, in one pool, and what guests do there. */
export type RoundsStage = BothSides & {
  readonly userId: UserId
  /** Makes a VM's disk of some bytes, with a hole up to its size. */
  readonly makeDisk: (id: VmId, content: Uint8Array, sizeBytes: number) => Promise<void> | void
  readonly writeDisk: (id: VmId, offset: number, bytes: Uint8Array) => Promise<void> | void
  /** The guest discards a stretch of its disk. */
  readonly punchDisk: (id: VmId, offset: number, length: number) => Promise<void> | void
  readonly growDisk: (id: VmId, sizeBytes: number) => Promise<void> | void
  readonly contentOf: (id: VmId) => Promise<Uint8Array> | Uint8Array
  readonly lookAt: (id: VmId) => Promise<DiskState>
  /** Returns the same pool after a restart of the daemon. */
  readonly reopen: () => BothSides
  readonly setInSight: (inSight: boolean) => Promise<void> | void
}

export const MIB = 1024 * 1024
export const vm = 'web-1' as VmId
export const moved = 'moved-1' as VmId
export const arrival = '5e2f8c31-arrival' as ArrivalId
export const other = '77d0a1b4-other' as ArrivalId
export const never = new AbortController().signal
export const SIZE_BYTES = 16 * MIB
/** Bytes of a round in which nothing changed: a head and a digest. */
export const END_BYTES = 24 + 32

export const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

export const roundOf = (number: number, of = arrival): RoundRef => ({ id: vm, arrival: of, number })

/** Bytes that do not compress, with zeros in between. */
export const content = (): Buffer =>
  Buffer.concat([randomBytes(3 * MIB), Buffer.alloc(2 * MIB), randomBytes(MIB + 4096)])

/** Makes the VM's disk, and returns its content. */
export async function diskMade({ makeDisk }: RoundsStage): Promise<Buffer> {
  const bytes = content()
  await makeDisk(vm, bytes, SIZE_BYTES)
  return Buffer.concat([bytes, Buffer.alloc(SIZE_BYTES - bytes.length)])
}

/** Copies every chunk of a round, from an offset on. */
export async function streamOf(rounds: DiskRounds, round: RoundRef, from = 0): Promise<Buffer[]> {
  const chunks: Buffer[] = []
  for await (const chunk of rounds.frames(round, from, never)) chunks.push(Buffer.from(chunk))
  return chunks
}

/** Brings one round to the destination, which is flushed then. */
export async function pulled(sides: BothSides, number: number): Promise<Round> {
  const { rounds, incomingDisks } = sides
  const round = await rounds.ensureRound(roundOf(number), never)
  const decoder = new FrameDecoder({ sizeBytes: round.sizeBytes, checks: streamChecks })
  const disk = await incomingDisks.open(arrival, { number, sizeBytes: round.sizeBytes })
  let dataBytes = 0
  try {
    for await (const chunk of rounds.frames(roundOf(number), 0, never)) {
      for (const frame of decoder.push(chunk)) {
        await disk.write(frame)
        if (frame.kind === 'data') dataBytes += frame.length
      }
    }
    await disk.flush()
  } finally {
    await disk.close()
  }
  assert.ok(decoder.isWhole)
  assert.equal(dataBytes, round.changedBytes)
  return round
}
