import assert from 'node:assert/strict'
import { offerVm } from '../src/commands/migration/offer-vm.ts'
import { FrameDecoder } from '../src/core/migration/frame-decoder.ts'
import { streamChecks } from '../src/host/rounds/stream-checks.ts'
import { sleepStage } from './sleep-stage.ts'
import type { TestContext } from 'node:test'
import type { ArrivalId } from '../src/core/migration/departure.ts'
import type { MigrationId, MigrationMode, NodeName } from '../src/core/migration/offer.ts'
import type { Answered } from '../src/ports/source-host.ts'
import type { StageOptions } from './reconcile-stage.ts'
import type { Move } from '../src/owners/migration/moves.ts'

export const never = new AbortController().signal

/** Returns the value of an answer, or its refusal. */
export async function said<T>(answer: Answered<T>): Promise<T | string> {
  const result = await answer
  return result.ok ? result.value : result.error
}

/** Returns the value of an answer that must not be a refusal. */
export async function got<T>(answer: Answered<T>): Promise<T> {
  const result = await answer
  assert.ok(result.ok, `refused: ${JSON.stringify(result)}`)
  return result.value
}

/** Applies a stream of frames to some bytes, and checks that it is whole. */
export async function applied(frames: AsyncIterable<Uint8Array>, disk: Uint8Array): Promise<Uint8Array> {
  const decoder = new FrameDecoder({ sizeBytes: disk.length, checks: streamChecks })
  for await (const chunk of frames)
    for (const frame of decoder.push(chunk))
      if (frame.kind === 'data') disk.set(frame.bytes, frame.offset)
      else disk.fill(0, frame.offset, frame.offset + frame.length)
  assert.ok(decoder.isWhole)
  return disk
}

/** Bytes of the disk of the guest. */
export const DISK_BYTES = 64 * 1024
const BLOCK_BYTES = 4096

/** A guest that runs and is offered, and the source's side of its migration beside its worker. */
export async function leaveStage(t: TestContext, mode: MigrationMode = 'live', options: StageOptions = {}) {
  const stage = await sleepStage(t, options)
  const { context, clock, id, idle, turns, vm } = stage
  stage.source().start()
  const move: Move = {
    id: 'move-7' as MigrationId,
    node: 'node-2' as NodeName,
    arrival: 'first' as ArrivalId,
  }
  const offer = async (as: MigrationId = move.id): Promise<void> => {
    const expiresAtMs = clock.now() + 3_600_000
    const offered = offerVm(context, id, { id: as, node: move.node, mode, expiresAtMs })
    assert.ok(offered.ok, JSON.stringify(offered))
    await idle()
  }
  await offer()
  const content = new Uint8Array(DISK_BYTES).fill(1, 0, BLOCK_BYTES)
  stage.host.diskContents.set(id, { content, sizeBytes: DISK_BYTES })
  /** Lets everything that does not wait for time continue. */
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 3; round += 1) await turns()
  }
  const round = (number: number, of = move) => stage.source().ensureRound(of, number, never)
  const handOver = async (of = move) => {
    const answer = stage.source().handOver(of, never)
    await settle()
    return answer
  }
  return {
    ...stage,
    move,
    offer,
    settle,
    round,
    handOver,
    /** The disk as the guest sees it. */
    content,
    /** Writes a block of the disk, as the guest does. */
    write: (block: number, byte: number): void =>
      void content.fill(byte, block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES),
    /** Copies a round onto what was copied before. */
    copy: async (number: number, onto: Uint8Array = new Uint8Array(DISK_BYTES)): Promise<Uint8Array> =>
      applied(await got(stage.source().reads.roundFrames(move, { number, from: 0 }, never)), onto),
    /** Takes one round, and hands the guest over. */
    toHandedOver: async (): Promise<void> => {
      await got(round(1))
      assert.equal((await got(handOver())).stage, 'handed_over')
    },
    stageNow: () => vm().departure?.stage,
    /** Stops the daemon, and starts the next one. */
    restart: async (): Promise<void> => {
      await stage.stop()
      await stage.start()
      stage.source().start()
    },
  }
}
