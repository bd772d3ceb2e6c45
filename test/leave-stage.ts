import assert from 'node:assert/strict'
import { offerVm } from '../src/commands/migration/offer-vm.ts'
import { FrameDecoder } from '../src/core/migration/frame-decoder.ts'
import { streamChecks } from '../src/host/rounds/stream-checks.ts'
import { sleepStage } from './sleep-stage.ts'
import type { TestContext } from 'node:test'
import type { ArrivalId } from '../src/core/migration/departure.ts'
import type { MigrationId, MigrationMode, NodeName } from '../src/core/migration/offer.ts'
import type { Answer, Move } from '../src/owners/migration/moves.ts'

export const never = new AbortController().signal

/** Returns the value of an answer, or its refusal. */
export async function said<T>(answer: Answer<T>): Promise<T | string> {
  const result = await answer
  if (result === undefined) return 'unknown'
  return result.ok ? result.value : result.error
}

/** Returns the value of an answer that must not be a refusal. */
export async function got<T>(answer: Answer<T>): Promise<T> {
  const result = await answer
  assert.ok(result?.ok === true, `refused: ${JSON.stringify(result)}`)
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

/** A guest that runs, and the source's side of its migrations beside its worker. */
export async function leaveStage(t: TestContext, mode: MigrationMode = 'live') {
  const stage = await sleepStage(t)
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
  return {
    ...stage,
    move,
    offer,
    stageNow: () => vm().departure?.stage,
    /** Lets everything that does not wait for time continue. */
    settle: async (): Promise<void> => {
      for (let round = 0; round < 3; round += 1) await turns()
    },
    /** Stops the daemon, and starts the next one. */
    restart: async (): Promise<void> => {
      await stage.stop()
      await stage.start()
      stage.source().start()
    },
  }
}
