import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { FRAME_HEAD_BYTES, FrameWriter } from '../../src/core/migration/frames.ts'
import { streamChecks } from '../../src/host/rounds/stream-checks.ts'
import { err, ok } from '../../src/lib/result.ts'
import { CopyEnded } from '../../src/owners/migration/copy-places.ts'
import { manifest } from '../daemon/support/coordination-host.ts'
import type { TestContext } from 'node:test'
import type { Departures } from '../../src/api/coordination/dependencies.ts'
import type { Sha256 } from '../../src/core/ids.ts'
import type { ArrivalId } from '../../src/core/migration/departure.ts'
import type { Frame } from '../../src/core/migration/frames.ts'
import type { MigrationId, NodeName } from '../../src/core/migration/offer.ts'
import type { Result } from '../../src/lib/result.ts'
import type { Answered, MoveRef, SourceHost } from '../../src/ports/source-host.ts'

/** A source whose departures the test writes, as the node `host-2` sees it. */
export type SourceHostStage = { readonly source: SourceHost; readonly departures: ScriptedDepartures }

type Writable<T> = { -readonly [K in keyof T]: T[K] }
export type ScriptedDepartures = Writable<Departures> & { readonly reads: Writable<Departures['reads']> }

/** Departures without any offer. */
export function noDepartures(): ScriptedDepartures {
  const none = async (): Promise<undefined> => undefined
  return {
    manifest: none,
    ensureRound: none,
    handOver: none,
    release: none,
    abort: none,
    reads: { roundFrames: none, memoryFrames: none, image: none, console: none, heldPackets: none },
  }
}

const never = new AbortController().signal
const NODE = 'host-2' as NodeName
const move: MoveRef = { migrationId: 'move-web-1' as MigrationId, arrival: 'arrival-1' as ArrivalId }
const asked = { id: move.migrationId, node: NODE, arrival: move.arrival }
const SHA = 'b'.repeat(64) as Sha256
const BLOCK = 4096
const DISK_BYTES = 8 * BLOCK

/** Frames of a disk: data, a hole and data, with their end. */
const frames = ((): readonly Uint8Array[] => {
  const writer = new FrameWriter(streamChecks)
  const data = (offset: number, byte: number): Uint8Array => {
    const frame = new Uint8Array(FRAME_HEAD_BYTES + BLOCK).fill(byte)
    writer.finishData(offset, frame)
    return frame
  }
  return [data(0, 1), writer.hole({ offset: BLOCK, length: 2 * BLOCK }), data(4 * BLOCK, 2), writer.end()]
})()

/** The end of each frame, at which a stream may continue. */
const ENDS = [BLOCK, 3 * BLOCK, 5 * BLOCK]
const framesFrom = (from: number): readonly Uint8Array[] => frames.slice(ENDS.indexOf(from) + 1)

async function* chunks(parts: readonly Uint8Array[], thrown?: Error): AsyncGenerator<Uint8Array, void> {
  const room = new Uint8Array(FRAME_HEAD_BYTES + BLOCK)
  for (const part of parts) {
    // Like the drivers, it uses one room for all chunks.
    room.set(part)
    yield room.subarray(0, part.length)
  }
  if (thrown !== undefined) throw thrown
}

type Seen = {
  readonly kind: string
  readonly offset: number
  readonly length: number
  readonly byte?: number
}

async function readAll(answer: Result<AsyncIterable<Frame>, string>): Promise<Seen[]> {
  assert.ok(answer.ok, 'refused')
  const seen: Seen[] = []
  for await (const { kind, offset, length, ...rest } of answer.value)
    seen.push({ kind, offset, length, ...('bytes' in rest ? { byte: rest.bytes[BLOCK - 1]! } : {}) })
  return seen
}

const ALL: readonly Seen[] = [
  { kind: 'data', offset: 0, length: BLOCK, byte: 1 },
  { kind: 'hole', offset: BLOCK, length: 2 * BLOCK },
  { kind: 'data', offset: 4 * BLOCK, length: BLOCK, byte: 2 },
]

/** Every request of a move, with what its source is asked. */
const requests = (
  source: SourceHost,
): Readonly<Record<string, (signal: AbortSignal) => Answered<unknown>>> => ({
  ensureRound: (signal) => source.ensureRound(move, 1, signal),
  roundFrames: (signal) => source.roundFrames(move, { number: 1, sizeBytes: DISK_BYTES }, signal),
  memoryFrames: (signal) => source.memoryFrames(move, DISK_BYTES, signal),
  handOver: (signal) => source.handOver(move, signal),
  image: (signal) => source.image(move.migrationId, SHA, signal),
  release: (signal) => source.release(move, 1, signal),
  abort: (signal) => source.abort(move, signal),
  heldPackets: (signal) => source.heldPackets(move, { after: 0, waitMs: 0 }, signal),
})

const isFault =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof HostFault && error.code === code

export function sourceHostContract(
  name: string,
  set: (t: TestContext, departures: ScriptedDepartures) => Promise<SourceHost>,
): void {
  const promise = (what: string, body: (stage: SourceHostStage) => Promise<void>): void => {
    test(`${name}: ${what}`, async (t) => {
      const departures = noDepartures()
      await body({ source: await set(t, departures), departures })
    })
  }

  promise('a manifest comes whole, and one of another node is unknown', async ({ source, departures }) => {
    departures.manifest = async ({ id, node }) =>
      id === manifest.migrationId && node === NODE ? manifest : undefined
    assert.deepEqual(await source.manifest(manifest.migrationId, never), ok(manifest))
    assert.deepEqual(await source.manifest('move-web-2' as MigrationId, never), err('unknown'))
  })

  promise(
    'without an offer to this node every request is unknown; a VM may have no console',
    async ({ source }) => {
      for (const [request, ask] of Object.entries(requests(source)))
        assert.deepEqual(await ask(never), err('unknown'), request)
      assert.deepEqual(await source.console(move, never), ok(undefined))
    },
  )

  promise('a refusal of the source is what it said', async ({ source, departures }) => {
    for (const refusal of ['withdrawn', 'released', 'not_yours'] as const) {
      const refuse = async () => err(refusal)
      Object.assign(departures, { ensureRound: refuse, handOver: refuse, release: refuse, abort: refuse })
      for (const read of ['roundFrames', 'memoryFrames', 'image', 'console', 'heldPackets'] as const)
        departures.reads[read] = refuse
      for (const [request, ask] of Object.entries(requests(source)))
        if (request !== 'image' || refusal !== 'not_yours')
          assert.deepEqual(await ask(never), err(refusal), request)
      assert.deepEqual(await source.console(move, never), err(refusal))
    }
    departures.ensureRound = async () => err('busy')
    assert.deepEqual(await source.ensureRound(move, 1, never), err('busy'))
    for (const refusal of ['too_early', 'outdated'] as const) {
      departures.release = async () => err(refusal)
      assert.deepEqual(await source.release(move, 1, never), err(refusal))
    }
  })

  promise(
    'a round is asked for in the name of this node, and comes as frames',
    async ({ source, departures }) => {
      const calls: unknown[] = []
      departures.ensureRound = async (...call) => {
        calls.push(call.slice(0, 2))
        return ok({ sizeBytes: DISK_BYTES, changedBytes: 2 * BLOCK })
      }
      departures.reads.roundFrames = async (...call) => {
        calls.push(call.slice(0, 2))
        return ok(chunks(frames))
      }
      const round = await source.ensureRound(move, 3, never)
      assert.deepEqual(round, ok({ sizeBytes: DISK_BYTES, changedBytes: 2 * BLOCK }))
      const read = await source.roundFrames(move, { number: 3, sizeBytes: DISK_BYTES }, never)
      assert.deepEqual(await readAll(read), ALL)
      assert.deepEqual(calls, [
        [asked, 3],
        [asked, { number: 3, from: 0 }],
      ])
    },
  )

  promise('a stream that breaks off continues behind its last frame', async ({ source, departures }) => {
    for (const cut of [
      new CopyEnded('the daemon stops'),
      new HostFault('storage_failed', 'reading round 1 of the disk of VM web-1'),
    ]) {
      const from: number[] = []
      const parts = async (at: number) => {
        const isFirst = from.push(at) === 1
        return ok(isFirst ? chunks(frames.slice(0, 2), cut) : chunks(framesFrom(at)))
      }
      departures.reads.roundFrames = (_, round) => parts(round.from)
      departures.reads.memoryFrames = (_, at) => parts(at)
      assert.deepEqual(
        await readAll(await source.roundFrames(move, { number: 1, sizeBytes: DISK_BYTES }, never)),
        ALL,
      )
      assert.deepEqual(from.splice(0), [0, 3 * BLOCK])
      assert.deepEqual(await readAll(await source.memoryFrames(move, DISK_BYTES, never)), ALL)
      assert.deepEqual(from, [0, 3 * BLOCK])
    }
  })

  promise(
    'a stream of other frames, or behind the end of the disk, is refused',
    async ({ source, departures }) => {
      const damaged = Uint8Array.from(frames[0]!)
      damaged[FRAME_HEAD_BYTES + 7]! ^= 1
      departures.reads.roundFrames = async () => ok(chunks([damaged, ...frames.slice(1)]))
      const read = (sizeBytes: number) =>
        source.roundFrames(move, { number: 1, sizeBytes }, never).then(readAll)
      await assert.rejects(read(DISK_BYTES), isFault('source_refused'))
      departures.reads.roundFrames = async () => ok(chunks(frames))
      await assert.rejects(read(4 * BLOCK), isFault('source_refused'))
    },
  )

  promise('a stream that ends before its first byte has another answer', async ({ source, departures }) => {
    departures.reads.roundFrames = async () => ok(chunks([], new CopyEnded('it is withdrawn')))
    const round = { number: 1, sizeBytes: DISK_BYTES }
    assert.deepEqual(await source.roundFrames(move, round, never), err('busy'))
    departures.reads.roundFrames = async () => ok(chunks([], new HostFault('round_lost', 'it is gone')))
    await assert.rejects(source.roundFrames(move, round, never), isFault('source_unreachable'))
  })

  promise('an image comes byte for byte', async ({ source, departures }) => {
    departures.reads.image = async ({ id, node }, sha256) => {
      assert.deepEqual([id, node, sha256], [move.migrationId, NODE, SHA])
      return ok(chunks(frames))
    }
    const image = await source.image(move.migrationId, SHA, never)
    assert.ok(image.ok)
    const parts: Buffer[] = []
    for await (const part of image.value) parts.push(Buffer.from(part))
    assert.ok(Buffer.concat(parts).equals(Buffer.concat(frames)))
  })

  promise('a handover says what was saved, or that nothing was', async ({ source, departures }) => {
    const { monitor } = manifest
    const terms = {
      savedAtMs: Date.UTC(2029, 5, 1),
      monitor,
      compute: { cpuMillicores: 500, memoryMib: 256 },
    }
    for (const handOver of [
      { stage: 'handing_over' },
      { stage: 'handed_over', lastRound: 4 },
      { stage: 'handed_over', lastRound: 4, memory: { lengthBytes: 512 * BLOCK, terms } },
    ] as const) {
      departures.handOver = async (called) => {
        assert.deepEqual(called, asked)
        return ok(handOver)
      }
      assert.deepEqual(await source.handOver(move, never), ok(handOver))
    }
  })

  promise('a console comes with its history', async ({ source, departures }) => {
    const output = Buffer.from('login: \u0000\u00ff', 'latin1')
    const moved = { session: '0123456789abcdef', end: 70_000, window: { cols: 132, rows: 43 }, output }
    departures.reads.console = async () => ok(moved)
    const answer = await source.console(move, never)
    assert.ok(answer.ok && answer.value !== undefined)
    const { output: came, ...rest } = answer.value
    assert.deepEqual(rest, { session: moved.session, end: moved.end, window: moved.window })
    assert.ok(output.equals(came))
    departures.reads.console = async () => ok(undefined)
    assert.deepEqual(await source.console(move, never), ok(undefined))
  })

  promise('a release names the last round, and an abort the attempt', async ({ source, departures }) => {
    const calls: unknown[] = []
    departures.release = async (...call) => {
      calls.push(call)
      return ok({ stage: 'released' })
    }
    departures.abort = async (...call) => {
      calls.push(call)
      return ok({ stage: 'withdrawn' })
    }
    assert.deepEqual(await source.release(move, 4, never), ok(undefined))
    assert.deepEqual(await source.abort(move, never), ok(undefined))
    assert.deepEqual(calls, [[asked, 4], [asked]])
  })

  promise('packets come with their bytes and their age', async ({ source, departures }) => {
    const frame = Buffer.from([0, 1, 255, 254])
    const packet = { number: 3, gsoSize: 1448, ageMs: 12, counts: true, frame }
    departures.reads.heldPackets = async (called, from) => {
      assert.deepEqual([called, from], [asked, { after: 2, waitMs: 50 }])
      return ok([packet])
    }
    const answer = await source.heldPackets(move, { after: 2, waitMs: 50 }, never)
    assert.ok(answer.ok)
    const [came] = answer.value
    assert.ok(came !== undefined && frame.equals(came.frame))
    assert.deepEqual({ ...came, frame }, packet)
    assert.equal(answer.value.length, 1)
  })

  promise('a source that could not look at its host is asked again later', async ({ source, departures }) => {
    departures.ensureRound = async () => {
      throw new HostFault('storage_inspection_failed', 'looking at the pool')
    }
    await assert.rejects(source.ensureRound(move, 1, never), isFault('source_unreachable'))
  })

  promise(
    'an abort ends a request with its reason, and the work of the source for it',
    async ({ source, departures }) => {
      const gone = Promise.withResolvers<void>()
      const begun = Promise.withResolvers<void>()
      departures.handOver = (_, signal) => {
        begun.resolve()
        return new Promise((_resolve, reject) => {
          const onAbort = (): void => {
            gone.resolve()
            reject(signal.reason)
          }
          signal.addEventListener('abort', onAbort)
        })
      }
      const reason = new Error('no longer wanted')
      const controller = new AbortController()
      const asking = source.handOver(move, controller.signal)
      await begun.promise
      controller.abort(reason)
      await assert.rejects(asking, reason)
      await gone.promise
      await assert.rejects(source.manifest(move.migrationId, controller.signal), reason)
    },
  )
}
