import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { test } from 'node:test'
import { isFault } from '../../../test/contract/saved-states.contract.ts'
import { limits } from '../../config/limits.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { flushWhile } from './flush-while.ts'

/** A file whose flushes do what the test says, and the terms of flushing it. */
function stage(datasync: (count: number) => Promise<void>) {
  const state = { flushes: 0, closed: false }
  const file = {
    datasync: () => {
      state.flushes += 1
      return datasync(state.flushes)
    },
    close: async () => void (state.closed = true),
  }
  const terms = { doing: 'flushing', flushes: new Semaphore(1) }
  return { state, file, terms }
}

const brokenDisk = (): Error =>
  Object.assign(new Error('fdatasync'), { code: 'EIO', errno: -constants.errno.EIO })

test('what a monitor writes is flushed while it saves, and the file is closed afterwards', async () => {
  const often = Promise.withResolvers<void>()
  const { state, file, terms } = stage(async (count) => {
    if (count === 3) often.resolve()
  })
  const saving = async (): Promise<string> => {
    await often.promise
    assert.ok(!state.closed)
    return 'saved'
  }
  const { saved, flushed } = await flushWhile(file, saving, terms)
  assert.equal(saved, 'saved')
  await flushed
  assert.ok(state.closed)
})

test('a flush that fails meanwhile fails the save, because no later flush reports it', async () => {
  const { state, file, terms } = stage(async () => {
    throw brokenDisk()
  })
  const { flushed } = await flushWhile(file, async () => 'saved', terms)
  await assert.rejects(flushed, isFault('storage_failed'))
  assert.ok(state.closed)
})

test('a save that fails does not wait for a flush, and its failure is the one that counts', async () => {
  const flushed = Promise.withResolvers<void>()
  const { state, file, terms } = stage(() => flushed.promise)
  const reason = new Error('traffic came')
  await assert.rejects(
    flushWhile(file, () => Promise.reject(reason), terms),
    reason,
  )
  assert.ok(!state.closed)
  flushed.reject(brokenDisk())
})

test('the result of a save does not wait for the last flush', async () => {
  const disk = Promise.withResolvers<void>()
  const { state, file, terms } = stage(() => disk.promise)
  const { saved, flushed } = await flushWhile(file, async () => 'saved', terms)
  assert.equal(saved, 'saved')
  assert.ok(!state.closed)
  disk.resolve()
  await flushed
  assert.ok(state.closed)
})

test('a flush that waits for its turn does not hold up the end of a save', async () => {
  const { state, file, terms } = stage(async () => {})
  const give = await terms.flushes.take()
  const { flushed } = await flushWhile(file, async () => 'saved', terms)
  await flushed
  assert.equal(state.flushes, 0)
  give()
})

test('a disk that does not keep up is left alone until the save is over', async () => {
  const clock = { ms: 0 }
  const slow = Promise.withResolvers<void>()
  const { state, file, terms } = stage(async () => {
    clock.ms += limits.saveFlushMsMax + 1
    slow.resolve()
  })
  const closed = async (): Promise<void> => {
    await slow.promise
    while (!state.closed) await new Promise(setImmediate)
  }
  const { flushed } = await flushWhile(file, closed, { ...terms, nowMs: () => clock.ms })
  await flushed
  assert.equal(state.flushes, 1)
})
