import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withdrawOffer } from '../../src/commands/migration/offer-vm.ts'
import { deleteVm } from '../../src/commands/vm/delete-vm.ts'
import { HostFault } from '../../src/core/errors.ts'
import { ok } from '../../src/lib/result.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { DISK_BYTES, leaveStage } from '../leave-stage.ts'
import type { TestContext } from 'node:test'
import type { Departures } from '../../src/api/coordination/dependencies.ts'
import type { FaultCode } from '../../src/core/errors.ts'
import type { Sha256 } from '../../src/core/ids.ts'
import type { ArrivalId } from '../../src/core/migration/departure.ts'
import type { Frame } from '../../src/core/migration/frames.ts'
import type { MigrationId, NodeName } from '../../src/core/migration/offer.ts'
import type { HandOver } from '../../src/core/vm/manifest.ts'
import type { Answered, MoveRef, SourceHost } from '../../src/ports/source-host.ts'

/** A way to a source. */
export type SourceLine = {
  /** Returns the source as this node sees it. */
  readonly as: (node: NodeName) => SourceHost
  /** Ends the source's daemon. */
  readonly stop: () => Promise<void>
}

type SetUp = (t: TestContext, source: Departures) => Promise<SourceLine>

const never = new AbortController().signal
const NODE = 'node-2' as NodeName

type Passes = (chunks: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>

/** A VM that is offered to `node-2` at a source with its real owners, and the line to that source. */
async function offered(t: TestContext, setUp: SetUp) {
  const stage = await leaveStage(t)
  const state = { passes: ((chunks) => chunks) as Passes, streams: 0 }
  const line = await setUp(t, passing(stage.source(), state))
  const source = line.as(NODE)
  const move: MoveRef = { migrationId: stage.move.id, arrival: stage.move.arrival }
  return Object.assign(state, {
    stage,
    line,
    source,
    move,
    /** Copies the disk as it is, and hands the guest over. */
    async handedOver(): Promise<HandOver> {
      await granted(source.ensureRound(move, 1, never))
      return granted(source.handOver(move, never))
    },
  })
}

type Offered = Awaited<ReturnType<typeof offered>>

/** Lets a test change the bytes of streams on their way. */
function passing(source: Departures, state: { passes: Passes; streams: number }): Departures {
  const changed = async (answer: Answered<AsyncIterable<Uint8Array>>) => {
    const given = await answer
    state.streams += 1
    return given.ok ? ok(state.passes(given.value)) : given
  }
  const reads: Departures['reads'] = {
    roundFrames: (...asked) => changed(source.reads.roundFrames(...asked)),
    memoryFrames: (...asked) => changed(source.reads.memoryFrames(...asked)),
    image: source.reads.image.bind(source.reads),
    console: source.reads.console.bind(source.reads),
    heldPackets: source.reads.heldPackets.bind(source.reads),
  }
  return {
    ensureRound: source.ensureRound.bind(source),
    handOver: source.handOver.bind(source),
    manifest: source.manifest.bind(source),
    release: source.release.bind(source),
    abort: source.abort.bind(source),
    reads,
  }
}

async function granted<T>(answer: Answered<T>): Promise<T> {
  const result = await answer
  assert.ok(result.ok, JSON.stringify(result))
  return result.value
}

/** Returns the refusal of each answer; `ok` for one that is granted. */
const said = (answers: readonly Answered<unknown>[]): Promise<string[]> =>
  Promise.all(
    answers.map(async (asked) => {
      const answer = await asked
      return answer.ok ? 'ok' : answer.error
    }),
  )

const isFault = (code: FaultCode) => (error: unknown) => error instanceof HostFault && error.code === code

async function apply(frames: AsyncIterable<Frame>, onto = new Uint8Array(DISK_BYTES)): Promise<Uint8Array> {
  for await (const frame of frames)
    if (frame.kind === 'data') onto.set(frame.bytes, frame.offset)
    else onto.fill(0, frame.offset, frame.offset + frame.length)
  return onto
}

const round = (number: number) => ({ number, sizeBytes: DISK_BYTES })

/** Promises of every way to a source. */
export function sourceHostContract(name: string, setUp: SetUp): void {
  const promise = (what: string, body: (offer: Offered) => Promise<void>): void => {
    test(`${name}: ${what}`, async (t) => body(await offered(t, setUp)))
  }
  promiseReading(promise)
  promiseRefusals(promise)
  promiseStreams(promise)
  promiseEnds(promise)
}

type Promising = (what: string, body: (offer: Offered) => Promise<void>) => void

function promiseReading(promise: Promising): void {
  promise('the manifest is what the source has, with everything that belongs to the VM', async (offer) => {
    const { stage, source, move } = offer
    const manifest = await granted(source.manifest(move.migrationId, never))
    assert.deepEqual(
      { ok: true, value: manifest },
      await stage.source().manifest({ id: stage.move.id, node: NODE }),
    )
    assert.deepEqual([manifest.stage, manifest.power], ['offered', 'running'])
  })

  promise('rounds bring the disk, and the same round may be asked for again', async (offer) => {
    const { stage, source, move } = offer
    const first = await granted(source.ensureRound(move, 1, never))
    assert.deepEqual(await granted(source.ensureRound(move, 1, never)), first)
    const disk = await apply(await granted(source.roundFrames(move, round(1), never)))
    assert.deepEqual(disk, stage.content)
    stage.write(5, 7)
    const { changedBytes } = await granted(source.ensureRound(move, 2, never))
    assert.equal(changedBytes, 4096)
    await apply(await granted(source.roundFrames(move, round(2), never)), disk)
    assert.deepEqual(disk, stage.content)
  })

  promise(
    'a guest that is down for the handover comes with its memory, its console and the frames it did not get',
    async (offer) => {
      const { stage, source, move } = offer
      const { stage: how, lastRound, memory } = await offer.handedOver()
      assert.deepEqual([how, lastRound], ['handed_over', 2])
      assert.ok(memory)
      const frames = await granted(source.memoryFrames(move, memory.lengthBytes, never))
      assert.ok((await apply(frames, new Uint8Array(memory.lengthBytes))).some((byte) => byte !== 0))
      const session = await granted(source.console(move, never))
      assert.equal(session?.session, stage.host.consoles.lastSession(stage.id)?.id)
      stage.receive('a')
      stage.receive('b')
      const held = (after: number) => source.heldPackets(move, { after, waitMs: 0 }, never)
      const numbers = async (after: number) => (await granted(held(after))).map(({ number }) => number)
      assert.deepEqual(await numbers(0), [1, 2])
      await granted(source.release(move, 2, never))
      assert.deepEqual(await numbers(1), [2])
    },
  )

  promise('kernel and initrd are read by their digest, and no other image is', async (offer) => {
    const { stage, source, move } = offer
    const { image } = stage.vm().desired
    const chunks: Uint8Array[] = []
    for await (const chunk of await granted(source.image(move.migrationId, image.kernelSha256, never)))
      chunks.push(Uint8Array.from(chunk))
    assert.equal(Buffer.concat(chunks).toString(), 'kernel')
    const other = source.image(move.migrationId, 'f'.repeat(64) as Sha256, never)
    assert.deepEqual(await said([other]), ['unknown'])
  })
}

const REQUESTS = {
  round: (source, move) => source.ensureRound(move, 2, never),
  roundFrames: (source, move) => source.roundFrames(move, round(2), never),
  handOver: (source, move) => source.handOver(move, never),
  memory: (source, move) => source.memoryFrames(move, DISK_BYTES, never),
  console: (source, move) => source.console(move, never),
  packets: (source, move) => source.heldPackets(move, { after: 0, waitMs: 0 }, never),
  release: (source, move) => source.release(move, 2, never),
  abort: (source, move) => source.abort(move, never),
} as const satisfies Record<string, (source: SourceHost, move: MoveRef) => Answered<unknown>>

type RequestName = keyof typeof REQUESTS

/** Sends the requests that name an attempt, but not these. Returns the refusal of each, or `ok`, by its name. */
async function askAll(
  source: SourceHost,
  move: MoveRef,
  except: readonly RequestName[] = [],
): Promise<Readonly<Record<string, string>>> {
  const names = (Object.keys(REQUESTS) as RequestName[]).filter((name) => !except.includes(name))
  const answers = await said(names.map((name) => REQUESTS[name](source, move)))
  return Object.fromEntries(names.map((name, index) => [name, answers[index] ?? '']))
}

function promiseRefusals(promise: Promising): void {
  promise('another node, and one with another migration id, learn nothing', async (offer) => {
    const { line, source, move } = offer
    await offer.handedOver()
    const stranger = line.as('node-3' as NodeName)
    const wrong = { ...move, migrationId: 'move-0' as MigrationId }
    for (const [host, asked] of [
      [stranger, move],
      [source, wrong],
    ] as const) {
      assert.deepEqual(await said([host.manifest(asked.migrationId, never)]), ['unknown'])
      const { console, ...answers } = await askAll(host, asked)
      assert.deepEqual([...new Set(Object.values(answers))], ['unknown'])
      // A VM may have no console, which is answered in the same way.
      assert.equal(console, 'ok')
    }
  })

  promise('what needs a guest that is down comes too early before', async (offer) => {
    const { source, move } = offer
    assert.deepEqual(await said([source.handOver(move, never)]), ['not_yours'])
    await granted(source.ensureRound(move, 1, never))
    const answers = await askAll(source, move, ['round', 'roundFrames', 'handOver', 'abort'])
    assert.deepEqual(answers, {
      memory: 'too_early',
      console: 'too_early',
      packets: 'too_early',
      release: 'too_early',
    })
  })

  promise('another attempt of the node gets nothing, and ends nothing', async (offer) => {
    const { stage, source, move } = offer
    await offer.handedOver()
    const answers = await askAll(source, { ...move, arrival: 'second' as ArrivalId })
    assert.deepEqual([...new Set(Object.values(answers))], ['not_yours'])
    assert.equal(stage.stageNow(), 'handed_over')
  })

  promise('another last round is outdated, and releases nothing', async (offer) => {
    const { stage, source, move } = offer
    await offer.handedOver()
    assert.deepEqual(await said([source.release(move, 1, never)]), ['outdated'])
    assert.equal(stage.stageNow(), 'handed_over')
  })
}

/** Yields the first `count` bytes; then the line breaks. */
async function* cutAfter(count: number, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let left = count
  for await (const chunk of chunks) {
    yield chunk.subarray(0, left)
    left -= chunk.length
    if (left <= 0) throw new HostFault('round_lost', 'the line breaks')
  }
}

/** Changes one byte of the data. */
async function* damaged(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let at = 0
  for await (const chunk of chunks) {
    const copy = Uint8Array.from(chunk)
    if (at <= 100 && 100 < at + copy.length) copy[100 - at] = (copy[100 - at] ?? 0) ^ 1
    at += copy.length
    yield copy
  }
}

function promiseStreams(promise: Promising): void {
  promise('a stream that is cut continues, and brings the same bytes', async (offer) => {
    const { stage, source, move } = offer
    for (const block of [3, 6, 9]) stage.write(block, block)
    await granted(source.ensureRound(move, 1, never))
    offer.passes = (chunks) => (offer.streams === 1 ? cutAfter(6000, chunks) : chunks)
    const disk = await apply(await granted(source.roundFrames(move, round(1), never)))
    assert.deepEqual(disk, stage.content)
    assert.equal(offer.streams, 2)
  })

  promise('a damaged stream ends with a fault that is not one of the line', async (offer) => {
    const { source, move } = offer
    await granted(source.ensureRound(move, 1, never))
    offer.passes = damaged
    const frames = await granted(source.roundFrames(move, round(1), never))
    await assert.rejects(apply(frames), isFault('source_refused'))
    assert.equal(offer.streams, 1)
  })

  promise('a source that does not answer is unreachable', async (offer) => {
    const { line, source, move } = offer
    await line.stop()
    await assert.rejects(source.manifest(move.migrationId, never), isFault('source_unreachable'))
    await assert.rejects(source.release(move, 2, never), isFault('source_unreachable'))
  })

  promise(
    'a fault of the source keeps its code, so that what cannot pass is not waited for',
    async (offer) => {
      const { stage, source, move } = offer
      for (const code of ['round_lost', 'migration_unsupported', 'storage_failed'] as const) {
        stage.host.rounds.failNext('ensureRound', new HostFault(code, 'taking round 1'))
        await assert.rejects(source.ensureRound(move, 1, never), isFault(code))
      }
      stage.host.rounds.failNext('ensureRound', new HostFault('tool_missing', 'taking round 1'))
      await assert.rejects(source.ensureRound(move, 1, never), isFault('source_unreachable'))
      await granted(source.ensureRound(move, 1, never))
      stage.host.rounds.failNext('frames', new HostFault('round_lost', 'reading'))
      await assert.rejects(source.roundFrames(move, round(1), never), isFault('round_lost'))
    },
  )

  promise('an abort ends a request with its own reason', async (offer) => {
    const { stage, source, move } = offer
    const reason = new Error('no longer needed')
    await offer.handedOver()
    // Each change of the VM ends a wait for packets.
    await stage.settle()
    const end = new AbortController()
    const waiting = source.heldPackets(move, { after: 0, waitMs: 10_000 }, end.signal)
    setTimeout(() => end.abort(reason), 20)
    await assert.rejects(waiting, (error) => error === reason)
    await assert.rejects(
      source.manifest(move.migrationId, AbortSignal.abort(reason)),
      (error) => error === reason,
    )
  })
}

function promiseEnds(promise: Promising): void {
  promise('a release is granted again and again, also after the deletion of the record', async (offer) => {
    const { stage, source, move } = offer
    await offer.handedOver()
    for (const _time of [1, 2]) await granted(source.release(move, 2, never))
    assert.deepEqual(await said([source.abort(move, never)]), ['released'])
    assert.ok(deleteVm(stage.context, stage.id).ok)
    await eventually(() => stage.store.vms.get(stage.id) === undefined)
    await granted(source.release(move, 2, never))
    assert.deepEqual(await said([source.abort(move, never)]), ['released'])
  })

  promise(
    'an attempt that is given up leaves the guest to the source, and gets nothing after that',
    async (offer) => {
      const { stage, source, move } = offer
      await offer.handedOver()
      for (const _time of [1, 2]) await granted(source.abort(move, never))
      assert.equal(stage.vm().departure?.because, 'aborted')
      const { abort, ...answers } = await askAll(source, move)
      assert.deepEqual([...new Set(Object.values(answers))], ['withdrawn'])
      assert.equal(abort, 'ok')
    },
  )

  promise('after a withdrawal nothing is released', async (offer) => {
    const { stage, source, move } = offer
    await offer.handedOver()
    assert.ok(withdrawOffer(stage.context, stage.id).ok)
    assert.deepEqual(await said([source.release(move, 2, never)]), ['withdrawn'])
    assert.equal(stage.stageNow(), 'withdrawn')
  })
}
