import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import type { PackedPart, PackPoint } from '../../src/core/snapshots/record.ts'
import { parseFrameEntries } from '../../src/core/snapshots/packed-form.ts'
import type { PackJob } from '../../src/ports/staging.ts'
import {
  MIB,
  vm,
  staged,
  other,
  never,
  START,
  PART_BYTES,
  SIZE_BYTES,
  isFault,
  packed,
  read,
  object,
  digest,
  capture,
  captured,
} from './staging-stage.ts'
import type { StagingStage, Taken } from './staging-stage.ts'

type Promising = (what: string, body: (stage: StagingStage) => Promise<void>) => void

/** Promises of all staging; `set` makes a stage and registers its own clean-up. */
export function stagingContract(
  name: string,
  set: (t: TestContext) => Promise<StagingStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise: Promising = (what, body) => {
    test(`${name}: ${what}`, options, async (t) => body(await set(t)))
  }
  promiseImage(promise)
  promiseClones(promise)
  promiseParts(promise)
  promiseGoingOn(promise)
  promiseLosses(promise)
  promiseSpace(promise)
  promiseRemoval(promise)
}

function promiseImage(promise: Promising): void {
  promise('the parts together decompress to the disk as it was captured', async (stage) => {
    const { staging } = stage
    const image = await captured(stage)
    await stage.writeDisk(vm, randomBytes(MIB))
    await staging.flushDisk(vm, never)
    const { taken, storedBytes, sha256 } = await packed(staging)
    const stored = await object(staging, taken)
    assert.equal(stored.length, storedBytes)
    assert.ok(zstdDecompressSync(stored).equals(image))
    assert.equal(sha256, digest('sha256', image))
    assert.ok(storedBytes < 10 * MIB, 'zeros and holes were stored')
  })

  promise('another capture under the same id replaces the first, and its packed data', async (stage) => {
    const { staging } = stage
    await captured(stage)
    const first = await packed(staging)
    await stage.writeDisk(vm, Buffer.from('written later'))
    await capture(staging)
    const lost = packed(staging, { from: first.taken[0]?.next ?? START, parts: 1 })
    await assert.rejects(lost, isFault('staging_lost'))
    const second = await packed(staging)
    assert.notEqual(second.sha256, first.sha256)
    const image = zstdDecompressSync(await object(staging, second.taken))
    assert.equal(image.subarray(0, 13).toString(), 'written later')
    assert.equal(digest('sha256', image), second.sha256)
  })

  promise('the seek table says where each frame is, so that each can be read by itself', async (stage) => {
    const image = await captured(stage)
    const { taken } = await packed(stage.staging)
    const stored = await object(stage.staging, taken)
    assert.equal(stored.readUInt32LE(stored.length - 4), 0x8f_92_ea_b1)
    assert.equal(stored[stored.length - 5], 0)
    const frames = stored.readUInt32LE(stored.length - 9)
    const table = stored.length - 9 - 8 * frames - 8
    assert.equal(stored.readUInt32LE(table), 0x18_4d_2a_5e)
    assert.equal(stored.readUInt32LE(table + 4), 8 * frames + 9)
    let [at, imageAt] = [0, 0]
    for (const { storedBytes, imageBytes } of parseFrameEntries(stored.subarray(table + 8, -9))) {
      const frame = zstdDecompressSync(stored.subarray(at, at + storedBytes))
      assert.ok(frame.equals(image.subarray(imageAt, imageAt + imageBytes)), `the frame at ${at}`)
      at += storedBytes
      imageAt += imageBytes
    }
    assert.deepEqual([at, imageAt], [table, SIZE_BYTES])
  })

  promise('a VM without a disk has none flushed or captured', async ({ staging }) => {
    await assert.rejects(staging.flushDisk(vm, never), isFault('disk_missing'))
    await assert.rejects(staging.clone(staged, vm), isFault('disk_missing'))
  })
}

function promiseClones(promise: Promising): void {
  promise(
    'a clone is of the moment it was made, and changes nothing in staging until it is kept',
    async (stage) => {
      const { staging } = stage
      const image = await captured(stage)
      await stage.writeDisk(vm, Buffer.from('written later'))
      await staging.clone(staged, vm)
      await stage.writeDisk(vm, Buffer.from('written last!'))
      assert.equal((await packed(staging)).sha256, digest('sha256', image))
      await staging.keep(staged)
      const { taken } = await packed(staging)
      const kept = zstdDecompressSync(await object(staging, taken))
      assert.equal(kept.subarray(0, 13).toString(), 'written later')
    },
  )

  promise('a clone that was never made, or was already kept or removed, is not kept', async (stage) => {
    const { staging } = stage
    await captured(stage)
    await assert.rejects(staging.keep(staged), isFault('staging_lost'))
    await staging.clone(other, vm)
    await staging.clone(other, vm)
    await staging.remove(other)
    await assert.rejects(staging.keep(other), isFault('staging_lost'))
    assert.deepEqual(
      (await staging.list()).map(({ stagingId }) => stagingId),
      [staged],
    )
  })
}

function promiseParts(promise: Promising): void {
  promise('parts are contiguous, of equal size except the last, and carry their digests', async (stage) => {
    const { staging } = stage
    await captured(stage)
    const { taken, storedBytes } = await packed(staging)
    assert.ok(taken.length >= 3)
    for (const [index, { part, next }] of taken.entries()) {
      const end = Math.min((index + 1) * PART_BYTES, storedBytes)
      assert.equal(part.number, index + 1)
      assert.equal(part.offsetBytes, index * PART_BYTES)
      assert.equal(part.offsetBytes + part.bytes, end)
      assert.ok(next.storedBytes >= end)
    }
    assert.equal((await object(staging, taken)).length, storedBytes)
    const sum = taken.reduce((imageBytes, { part }) => imageBytes + part.imageBytes, 0)
    assert.equal(sum, SIZE_BYTES)
    assert.deepEqual(taken.at(-1)?.next, { imageBytes: SIZE_BYTES, storedBytes })
  })

  promise('one part is handed over at a time, whole and readable', async (stage) => {
    const { staging } = stage
    await captured(stage)
    let giving = false
    await packed(staging, {
      onPart: async (part) => {
        assert.equal(giving, false)
        giving = true
        assert.equal(digest('sha256', await read(staging, part)), part.sha256)
        giving = false
      },
    })
  })

  promise('a part that is not accepted ends the pack with that error', async (stage) => {
    await captured(stage)
    const reason = new Error('the store is full')
    const numbers: number[] = []
    const onPart = async ({ number }: PackedPart): Promise<void> => {
      numbers.push(number)
      if (number === 2) throw reason
    }
    await assert.rejects(packed(stage.staging, { onPart }), reason)
    assert.deepEqual(numbers, [1, 2])
  })

  promise('several readers can read a part at once, and a reader may stop early', async (stage) => {
    const { staging } = stage
    await captured(stage)
    const [first] = (await packed(staging)).taken
    const { part } = first as Taken
    const body = staging.partBody(staged, part)
    assert.equal(body.bytes, part.bytes)
    const readers = [1, 2, 3].map(async () => digest('md5', await read(staging, part)))
    for await (const chunk of body.chunks(never)) {
      assert.ok(chunk.length > 0)
      break
    }
    assert.deepEqual(await Promise.all(readers), [part.md5, part.md5, part.md5])
    const reason = new Error('enough')
    const controller = new AbortController()
    await assert.rejects(async () => {
      for await (const chunk of body.chunks(controller.signal)) controller.abort(chunk.length > 0 && reason)
    }, reason)
  })
}

function promiseGoingOn(promise: Promising): void {
  promise(
    'after each part another daemon can continue, and makes the same image of the rest',
    async (stage) => {
      const image = await captured(stage)
      const whole = await packed(stage.staging)
      for (const parts of whole.taken.keys()) {
        const before = whole.taken.slice(0, parts)
        const again = stage.reopen()
        const { taken, ...result } = await packed(again, { from: before.at(-1)?.next ?? START, parts })
        assert.deepEqual(result, { storedBytes: whole.storedBytes, sha256: whole.sha256 })
        assert.equal(taken[0]?.part.number, parts + 1)
        const stored = await object(again, [...before, ...taken])
        assert.ok(zstdDecompressSync(stored).equals(image), `after part ${parts}`)
      }
    },
  )

  promise('a fully packed disk is only digested', async (stage) => {
    await captured(stage)
    const { taken, ...result } = await packed(stage.staging)
    const from = taken.at(-1)?.next as PackPoint
    const again = await packed(stage.reopen(), { from, parts: taken.length })
    assert.deepEqual(again, { ...result, taken: [] })
  })

  promise('an aborted pack says why, and continues where its last part ended', async (stage) => {
    const { staging } = stage
    const image = await captured(stage)
    const reason = new Error('the daemon stops')
    await assert.rejects(
      staging.pack(
        jobOf(async () => {}),
        AbortSignal.abort(reason),
      ),
      reason,
    )
    const controller = new AbortController()
    const taken: Taken[] = []
    const onPart = async (part: PackedPart, next: PackPoint): Promise<void> => {
      if (part.number === 2) {
        controller.abort(reason)
        // A store that never answers does not delay it.
        return new Promise(() => {})
      }
      taken.push({ part, next })
      return undefined
    }
    await assert.rejects(staging.pack(jobOf(onPart), controller.signal), reason)
    const rest = await packed(staging, { from: taken[0]?.next ?? START, parts: 1 })
    const stored = await object(staging, [...taken, ...rest.taken])
    assert.ok(zstdDecompressSync(stored).equals(image))
  })
}

const jobOf = (onPart: PackJob['onPart']): PackJob => ({
  ...{ stagingId: staged, from: START, parts: 0, partBytes: PART_BYTES, onPart },
})

function promiseLosses(promise: Promising): void {
  const isLost = isFault('staging_lost')

  promise('a snapshot that is not staged is lost, and is not packed further', async (stage) => {
    const { staging } = stage
    await assert.rejects(packed(staging), isLost)
    await captured(stage)
    const { taken } = await packed(staging)
    await staging.removeClone(staged)
    await staging.removeClone(staged)
    await assert.rejects(packed(staging, { from: taken[1]?.next as PackPoint, parts: 2 }), isLost)
    // Parts are sent without the clone.
    assert.equal(digest('md5', await read(staging, taken[1]?.part as PackedPart)), taken[1]?.part.md5)
  })

  promise('packed data that became shorter is lost, and is not sent further', async (stage) => {
    const { staging } = stage
    await captured(stage)
    const { taken } = await packed(staging)
    const { part, next } = taken[1] as Taken
    await stage.cutPacked(staged, part.offsetBytes + part.bytes - 1)
    await assert.rejects(read(staging, part), isLost)
    await assert.rejects(packed(staging, { from: next, parts: 2 }), isLost)
    assert.equal(digest('md5', await read(staging, taken[0]?.part as PackedPart)), taken[0]?.part.md5)
  })

  promise('a point that is not the end of a frame belongs to another snapshot', async (stage) => {
    const { staging } = stage
    await captured(stage)
    const { taken } = await packed(staging)
    const { imageBytes, storedBytes } = (taken[0] as Taken).next
    for (const from of [
      { imageBytes, storedBytes: storedBytes - 1 },
      { imageBytes: imageBytes + 1, storedBytes },
    ]) {
      await assert.rejects(packed(staging, { from, parts: 1 }), isLost, JSON.stringify(from))
    }
  })
}

function promiseSpace(promise: Promising): void {
  promise('a staged snapshot is listed with its size, which excludes discarded parts', async (stage) => {
    const { staging } = stage
    assert.deepEqual(await staging.list(), [])
    await captured(stage)
    const { taken, storedBytes } = await packed(staging)
    const sizes = async (): Promise<readonly [number, number]> => {
      const [only, ...none] = await staging.list()
      assert.deepEqual([only?.stagingId, none], [staged, []])
      return [only?.packedBytes ?? 0, only?.cloneBytes ?? 0]
    }
    const [packedBytes, cloneBytes] = await sizes()
    assert.ok(packedBytes >= storedBytes && cloneBytes >= 9 * MIB)
    const { part } = taken[0] as Taken
    await staging.discardPart(staged, part)
    await staging.discardPart(staged, part)
    await staging.removeClone(staged)
    const [leftBytes, noCloneBytes] = await sizes()
    // The file system may need some bytes to record the hole.
    assert.ok(leftBytes <= packedBytes - part.bytes + MIB / 8, `${packedBytes} became ${leftBytes}`)
    assert.equal(noCloneBytes, 0)
    const second = taken[1]?.part as PackedPart
    assert.equal(digest('md5', await read(staging, second)), second.md5)
  })

  promise('discarded parts do not hinder the packing of others', async (stage) => {
    const { staging } = stage
    const image = await captured(stage)
    const { taken } = await packed(staging)
    const before = await object(staging, taken.slice(0, 2))
    for (const { part } of taken.slice(0, 2)) await staging.discardPart(staged, part)
    const rest = await packed(stage.reopen(), { from: taken[1]?.next as PackPoint, parts: 2 })
    const stored = Buffer.concat([before, await object(staging, rest.taken)])
    assert.ok(zstdDecompressSync(stored).equals(image))
  })
}

function promiseRemoval(promise: Promising): void {
  promise('removal takes all of one snapshot and nothing of another', async (stage) => {
    const { staging } = stage
    await captured(stage)
    await capture(staging, other)
    const { taken } = await packed(staging)
    for (let round = 0; round < 2; round += 1) {
      await staging.remove(staged)
      assert.deepEqual(
        (await staging.list()).map(({ stagingId }) => stagingId),
        [other],
      )
    }
    const { part } = taken[0] as Taken
    await assert.rejects(read(staging, part), isFault('staging_lost'))
    await staging.discardPart(staged, part)
    await packed(staging, { stagingId: other })
  })

  promise('a hidden pool is unknown, never without staging, and keeps it', async (stage) => {
    const { staging } = stage
    await captured(stage)
    const { taken } = await packed(staging)
    const { part } = taken[0] as Taken
    await stage.setInSight(false)
    for (const ask of [
      () => staging.list(),
      () => staging.flushDisk(vm, never),
      () => staging.clone(staged, vm),
      () => staging.keep(staged),
      () => packed(staging),
      () => staging.removeClone(staged),
      () => staging.discardPart(staged, part),
      () => staging.remove(staged),
    ]) {
      await assert.rejects(ask(), isFault('storage_inspection_failed'))
    }
    await stage.setInSight(true)
    assert.equal(digest('md5', await read(staging, part)), part.md5)
    assert.equal((await staging.list()).length, 1)
  })
}
