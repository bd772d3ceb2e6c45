import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { Sha256 } from '../../src/core/ids.ts'
import type { Frame } from '../../src/core/migration/frames.ts'
import { FrameDecoder } from '../../src/core/migration/frame-decoder.ts'
import { streamChecks } from '../../src/host/rounds/stream-checks.ts'
import { markOfTests } from '../record.ts'
import {
  arrival,
  diskMade,
  END_BYTES,
  isFault,
  MIB,
  moved,
  never,
  other,
  pulled,
  roundOf,
  SIZE_BYTES,
  streamOf,
  vm,
} from './disk-rounds-stage.ts'
import type { RoundsStage } from './disk-rounds-stage.ts'

type Promising = (what: string, body: (stage: RoundsStage) => Promise<void>) => void

/** Promises of disks that move; `set` makes a stage and registers its own clean-up. */
export function diskRoundsContract(
  name: string,
  set: (t: TestContext) => Promise<RoundsStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise: Promising = (what, body) => {
    test(`${name}: ${what}`, options, async (t) => body(await set(t)))
  }
  promiseRounds(promise)
  promiseNumbers(promise)
  promiseStreams(promise)
  promiseRemoval(promise)
  promiseIncoming(promise)
  promisePublication(promise)
  promiseSight(promise)
}

const ownerOf = ({ userId }: RoundsStage) => ({ id: moved, userId, mark: markOfTests })

function promiseRounds(promise: Promising): void {
  promise('a disk that is written, discarded and grown between rounds arrives as it is', async (stage) => {
    await diskMade(stage)
    await pulled(stage, 1)
    await stage.writeDisk(vm, MIB, randomBytes(8192))
    await stage.writeDisk(vm, 10 * MIB, randomBytes(300_000))
    await stage.punchDisk(vm, 0, 512 * 1024)
    await pulled(stage, 2)
    await stage.growDisk(vm, SIZE_BYTES + 4 * MIB)
    await stage.writeDisk(vm, SIZE_BYTES + MIB, randomBytes(4096))
    const { sizeBytes } = await pulled(stage, 3)
    assert.equal(sizeBytes, SIZE_BYTES + 4 * MIB)
    await stage.incomingDisks.publish(arrival, ownerOf(stage), never)
    const [from, to] = [await stage.contentOf(vm), await stage.contentOf(moved)]
    assert.ok(Buffer.from(from).equals(to))
  })

  promise('the first round has the data and no holes, and a later one only what changed', async (stage) => {
    await diskMade(stage)
    const { changedBytes, sizeBytes } = await stage.rounds.ensureRound(roundOf(1), never)
    assert.equal(sizeBytes, SIZE_BYTES)
    assert.ok(changedBytes >= 4 * MIB && changedBytes <= 7 * MIB, `${changedBytes} bytes`)
    await stage.writeDisk(vm, 2 * MIB, randomBytes(8192))
    const second = await stage.rounds.ensureRound(roundOf(2), never)
    assert.ok(
      second.changedBytes >= 8192 && second.changedBytes <= 256 * 1024,
      `${second.changedBytes} bytes`,
    )
    const third = await stage.rounds.ensureRound(roundOf(3), never)
    assert.equal(third.changedBytes, 0)
    assert.equal(Buffer.concat(await streamOf(stage.rounds, roundOf(3))).length, END_BYTES)
  })

  promise('a round is the disk at one moment, and the same again after a restart', async (stage) => {
    await diskMade(stage)
    await stage.rounds.ensureRound(roundOf(1), never)
    await stage.writeDisk(vm, 0, randomBytes(MIB))
    const second = await stage.rounds.ensureRound(roundOf(2), never)
    const stream = Buffer.concat(await streamOf(stage.rounds, roundOf(2)))
    await stage.writeDisk(vm, 2 * MIB, randomBytes(MIB))
    const { rounds } = stage.reopen()
    assert.deepEqual(await rounds.ensureRound(roundOf(2), never), second)
    assert.ok(Buffer.concat(await streamOf(rounds, roundOf(2))).equals(stream))
  })
}

function promiseNumbers(promise: Promising): void {
  promise('only the present round and the next can be taken', async (stage) => {
    await diskMade(stage)
    const { rounds } = stage
    const lost = (number: number, of = arrival): Promise<void> =>
      assert.rejects(rounds.ensureRound(roundOf(number, of), never), isFault('round_lost'))
    await lost(2)
    for (const number of [1, 2, 3]) await rounds.ensureRound(roundOf(number), never)
    for (const number of [1, 2, 5]) await lost(number)
    await rounds.ensureRound(roundOf(3), never)
    await lost(3, other)
    await rounds.ensureRound(roundOf(4), never)
  })

  promise('the first round of another arrival takes the place of all rounds', async (stage) => {
    await diskMade(stage)
    const { rounds } = stage
    for (const number of [1, 2]) await rounds.ensureRound(roundOf(number), never)
    await rounds.ensureRound(roundOf(1, other), never)
    for (const number of [2, 3])
      await assert.rejects(rounds.ensureRound(roundOf(number), never), isFault('round_lost'))
    await assert.rejects(streamOf(rounds, roundOf(2)), isFault('round_lost'))
    await rounds.ensureRound(roundOf(2, other), never)
  })

  promise('a VM without a disk has no rounds', async ({ rounds }) => {
    await assert.rejects(rounds.ensureRound(roundOf(1), never), isFault('disk_missing'))
    await assert.rejects(streamOf(rounds, roundOf(1)), isFault('round_lost'))
  })

  promise('an aborted call ends with its reason', async (stage) => {
    await diskMade(stage)
    const reason = new Error('enough')
    const aborted = AbortSignal.abort(reason)
    await assert.rejects(stage.rounds.ensureRound(roundOf(1), aborted), reason)
    await stage.rounds.ensureRound(roundOf(1), never)
    const controller = new AbortController()
    const reading = async (): Promise<void> => {
      for await (const _chunk of stage.rounds.frames(roundOf(1), 0, controller.signal))
        controller.abort(reason)
    }
    await assert.rejects(reading(), reason)
  })
}

function promiseStreams(promise: Promising): void {
  promise('a stream that was cut continues where it was cut, also after a restart', async (stage) => {
    await diskMade(stage)
    const { sizeBytes } = await stage.rounds.ensureRound(roundOf(1), never)
    const whole = Buffer.concat(await streamOf(stage.rounds, roundOf(1)))
    const placesOf = (decoder: FrameDecoder, stream: Uint8Array): Pick<Frame, 'offset' | 'length'>[] =>
      [...decoder.push(stream)].map(({ offset, length }) => ({ offset, length }))
    const decoderOf = (): FrameDecoder => new FrameDecoder({ sizeBytes, checks: streamChecks })
    const expected = placesOf(decoderOf(), whole)
    assert.ok(expected.length > 8)
    for (const sent of [0, 10, MIB, 2 * MIB + 100, whole.length - 1]) {
      const decoder = decoderOf()
      const seen = placesOf(decoder, whole.subarray(0, sent))
      const from = decoder.cut()
      const { rounds } = sent === MIB ? stage.reopen() : stage
      const rest = Buffer.concat(await streamOf(rounds, roundOf(1), from))
      assert.ok(rest.equals(whole.subarray(-rest.length)), `after ${sent} bytes`)
      seen.push(...placesOf(decoder, rest))
      assert.ok(decoder.isWhole)
      assert.deepEqual(seen, expected)
    }
  })

  promise('a reader that stops early hinders no other', async (stage) => {
    await diskMade(stage)
    await stage.rounds.ensureRound(roundOf(1), never)
    for await (const _chunk of stage.rounds.frames(roundOf(1), 0, never)) break
    await pulled(stage, 1)
  })
}

function promiseRemoval(promise: Promising): void {
  promise('removal takes all rounds of a VM, and a new arrival begins with the first', async (stage) => {
    await diskMade(stage)
    const { rounds } = stage
    assert.deepEqual(await rounds.list(), [])
    await rounds.remove(vm)
    for (const number of [1, 2]) await rounds.ensureRound(roundOf(number), never)
    assert.deepEqual(await rounds.list(), [vm])
    for (let time = 0; time < 2; time += 1) {
      await rounds.remove(vm)
      assert.deepEqual(await rounds.list(), [])
    }
    await assert.rejects(streamOf(rounds, roundOf(2)), isFault('round_lost'))
    await assert.rejects(rounds.ensureRound(roundOf(3), never), isFault('round_lost'))
    await rounds.ensureRound(roundOf(1), never)
  })
}

function promiseIncoming(promise: Promising): void {
  promise('a frame beyond the size of the disk is refused', async ({ incomingDisks }) => {
    const disk = await incomingDisks.open(arrival, { number: 1, sizeBytes: MIB })
    const bytes = new Uint8Array(4096)
    const beyond: Frame = { kind: 'data', offset: MIB - 4095, length: 4096, bytes }
    await assert.rejects(disk.write(beyond), /within its file/)
    await disk.close()
  })

  promise('an unfinished disk is listed, kept over a restart, and removable', async (stage) => {
    await diskMade(stage)
    assert.deepEqual(await stage.incomingDisks.list(), [])
    await pulled(stage, 1)
    const { incomingDisks } = stage.reopen()
    assert.deepEqual(await incomingDisks.list(), [arrival])
    await assert.rejects(
      incomingDisks.open(arrival, { number: 2, sizeBytes: SIZE_BYTES - MIB }),
      isFault('round_lost'),
    )
    const disk = await incomingDisks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES })
    await disk.close()
    for (let time = 0; time < 2; time += 1) {
      await incomingDisks.remove(arrival)
      assert.deepEqual(await incomingDisks.list(), [])
    }
    assert.equal((await stage.lookAt(moved)).kind, 'absent')
  })

  promise('a disk that is gone after the first round is lost', async (stage) => {
    await diskMade(stage)
    await pulled(stage, 1)
    const { incomingDisks } = stage.reopen()
    await incomingDisks.remove(arrival)
    await assert.rejects(pulled(stage, 2), isFault('round_lost'))
    assert.deepEqual(await incomingDisks.list(), [])
    await assert.rejects(incomingDisks.publish(arrival, ownerOf(stage), never), isFault('round_lost'))
  })

  promise('a first round that is another one leaves nothing of what came before', async (stage) => {
    await diskMade(stage)
    await pulled(stage, 1)
    await stage.rounds.ensureRound(roundOf(1, other), never)
    await stage.punchDisk(vm, 0, MIB)
    await pulled(stage, 1)
    await stage.incomingDisks.publish(arrival, ownerOf(stage), never)
    assert.ok(Buffer.from(await stage.contentOf(vm)).equals(await stage.contentOf(moved)))
  })

  promise('a round that is taken again from its beginning has the same result', async (stage) => {
    await diskMade(stage)
    await pulled(stage, 1)
    await stage.punchDisk(vm, 0, MIB)
    await stage.writeDisk(vm, 2 * MIB, randomBytes(MIB))
    for (let time = 0; time < 2; time += 1) await pulled(stage.reopen(), 2)
    await stage.incomingDisks.publish(arrival, ownerOf(stage), never)
    assert.ok(Buffer.from(await stage.contentOf(vm)).equals(await stage.contentOf(moved)))
  })
}

function promisePublication(promise: Promising): void {
  promise('a published disk is the VM’s, with its note, and publishing is safe to repeat', async (stage) => {
    await diskMade(stage)
    await pulled(stage, 1)
    const rootfsSha256 = 'ab'.repeat(32) as Sha256
    const owner = { ...ownerOf(stage), rootfsSha256, rebuild: 2 }
    for (const { incomingDisks } of [stage, stage, stage.reopen()]) {
      await incomingDisks.publish(arrival, owner, never)
      assert.deepEqual(await stage.lookAt(moved), {
        kind: 'present',
        sizeMib: SIZE_BYTES / MIB,
        note: { mark: markOfTests, rootfsSha256, rebuild: 2 },
        usableBy: stage.userId,
      })
      assert.deepEqual(await incomingDisks.list(), [])
    }
    await stage.incomingDisks.remove(arrival)
    assert.equal((await stage.lookAt(moved)).kind, 'present')
  })

  promise('a disk that is there is not replaced', async (stage) => {
    await diskMade(stage)
    await pulled(stage, 1)
    await stage.makeDisk(moved, randomBytes(MIB), SIZE_BYTES)
    const before = await stage.contentOf(moved)
    await assert.rejects(stage.incomingDisks.publish(arrival, ownerOf(stage), never), isFault('disk_foreign'))
    assert.ok(Buffer.from(before).equals(await stage.contentOf(moved)))
    assert.deepEqual(await stage.incomingDisks.list(), [arrival])
    await stage.incomingDisks.remove(arrival)
    await assert.rejects(stage.incomingDisks.publish(arrival, ownerOf(stage), never), isFault('disk_foreign'))
  })

  promise('a disk that was published is not replaced by another arrival for the same VM', async (stage) => {
    await diskMade(stage)
    await pulled(stage, 1)
    await stage.incomingDisks.publish(arrival, ownerOf(stage), never)
    const before = await stage.contentOf(moved)
    const disk = await stage.incomingDisks.open(other, { number: 1, sizeBytes: SIZE_BYTES })
    await disk.close()
    await assert.rejects(stage.incomingDisks.publish(other, ownerOf(stage), never), isFault('disk_foreign'))
    assert.ok(Buffer.from(before).equals(await stage.contentOf(moved)))
    assert.deepEqual(await stage.incomingDisks.list(), [other])
  })

  promise('without an incoming disk nothing is published', async (stage) => {
    await assert.rejects(stage.incomingDisks.publish(arrival, ownerOf(stage), never), isFault('round_lost'))
    assert.equal((await stage.lookAt(moved)).kind, 'absent')
  })
}

function promiseSight(promise: Promising): void {
  promise('a hidden pool is unknown, never without rounds, and keeps them', async (stage) => {
    await diskMade(stage)
    await pulled(stage, 1)
    const { rounds, incomingDisks } = stage
    await stage.setInSight(false)
    for (const ask of [
      () => rounds.ensureRound(roundOf(2), never),
      () => rounds.list(),
      () => rounds.remove(vm),
      () => incomingDisks.open(arrival, { number: 1, sizeBytes: SIZE_BYTES }),
      () => incomingDisks.publish(arrival, ownerOf(stage), never),
      () => incomingDisks.remove(arrival),
      () => incomingDisks.list(),
    ]) {
      await assert.rejects(ask(), isFault('storage_inspection_failed'))
    }
    await stage.setInSight(true)
    assert.deepEqual([await rounds.list(), await incomingDisks.list()], [[vm], [arrival]])
    await pulled(stage, 2)
  })
}
