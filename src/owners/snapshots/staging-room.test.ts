import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { StagingRoom } from './staging-room.ts'
import type { StagingId } from '../../core/snapshots/record.ts'

const never = new AbortController().signal
const staged = 'snap-1.op-1' as StagingId

/** Makes room with a quota of 10 bytes, and packs that take some of it. */
function roomStage() {
  let quotaBytes = 10
  let lacks = 0
  const room = new StagingRoom({ quotaBytes: () => quotaBytes, onLack: () => (lacks += 1) })
  const admitted = new Map<string, () => void>()
  return {
    room,
    lacks: () => lacks,
    setQuota: (bytes: number): void => void (quotaBytes = bytes),
    take: (name: string, bytes: number): void =>
      void room.take(bytes, never).then((give) => admitted.set(name, give)),
    give: (name: string): void => admitted.get(name)?.(),
    /** Returns the packs that were admitted so far. */
    admitted: async (): Promise<readonly string[]> => {
      await setImmediate()
      return [...admitted.keys()]
    },
  }
}

test('a pack that waits is admitted although the quota became smaller than its part', async () => {
  const { room, setQuota, take, give, admitted } = roomStage()
  const giveNow = room.takeNow(8)
  take('first', 8)
  take('second', 2)
  setQuota(4)
  giveNow?.()
  assert.deepEqual([await admitted(), room.lackingBytes()], [['first'], 2])
  give('first')
  assert.deepEqual(await admitted(), ['first', 'second'])
  give('second')
  setQuota(10)
  assert.notEqual(room.takeNow(10), undefined, 'not all that was taken is given back')
})

test('a quota that became larger admits packs at the next sweep', async () => {
  const { room, setQuota, take, admitted } = roomStage()
  room.set(staged, 8)
  take('first', 8)
  take('second', 2)
  setQuota(18)
  room.admit()
  assert.deepEqual([await admitted(), room.takeNow(1)], [['first', 'second'], undefined])
})

test('a pack that waits has its whole part once the quota is larger again', async () => {
  const { room, setQuota, take, admitted } = roomStage()
  room.set(staged, 4)
  setQuota(4)
  take('first', 8)
  setQuota(10)
  room.admit()
  assert.deepEqual([await admitted(), room.lackingBytes()], [[], 2])
})

test('an admission by a sweep asks for no room, because the sweep makes some', () => {
  const { room, lacks, setQuota } = roomStage()
  room.set(staged, 8)
  setQuota(4)
  room.admit()
  assert.deepEqual([lacks(), room.lackingBytes()], [0, 4])
})

test('a pack that waits is not overtaken by one that needs less', async () => {
  const { room, take, admitted } = roomStage()
  const giveNow = room.takeNow(8)
  take('first', 8)
  assert.equal(room.takeNow(2), undefined)
  giveNow?.()
  assert.deepEqual(await admitted(), ['first'])
})

test('a pack that ends while it waits lets the next one in', async () => {
  const { room, take, admitted } = roomStage()
  room.takeNow(8)
  const ending = new AbortController()
  const ended = assert.rejects(room.take(8, ending.signal), /the snapshot is gone/)
  take('second', 2)
  assert.deepEqual(await admitted(), [])
  ending.abort(new Error('the snapshot is gone'))
  await ended
  assert.deepEqual(await admitted(), ['second'])
})

test('a pack that ends just as it is admitted keeps no room', async () => {
  const { room } = roomStage()
  const giveNow = room.takeNow(8)
  const ending = new AbortController()
  const ended = assert.rejects(room.take(8, ending.signal), /the snapshot is gone/)
  ending.abort(new Error('the snapshot is gone'))
  giveNow?.()
  await ended
  assert.notEqual(room.takeNow(10), undefined)
})
