import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { PartsToTake } from './parts-to-take.ts'

const never = new AbortController().signal
const digests = Promise.resolve({ md5: 'm', sha256: 's' })
const partOf = (number: number) => ({
  number,
  offsetBytes: (number - 1) * 10,
  bytes: 10,
  imageBytes: 4,
})
const next = { imageBytes: 8, storedBytes: 12 }
const flush = async (): Promise<void> => {}
const isPending = async (promise: Promise<void>): Promise<boolean> =>
  (await Promise.race([promise, turn('pending')])) === 'pending'

test('a part is synced before it is handed over, and the next one waits until it is taken', async () => {
  const log: string[] = []
  const taken = Promise.withResolvers<void>()
  const toTake = new PartsToTake(
    async ({ number, md5, sha256 }, { storedBytes }) => {
      log.push(`${number} ${md5} ${sha256} ${storedBytes}`)
      await taken.promise
    },
    async () => void log.push('flush'),
    never,
  )
  toTake.add(partOf(1), digests, next)
  toTake.add(partOf(2), digests, next)
  await turn()
  assert.deepEqual(log, ['flush', '1 m s 12'])
  taken.resolve()
  await toTake.end()
  assert.deepEqual(log, ['flush', '1 m s 12', 'flush', '2 m s 12'])
})

test('packing runs ahead of the oldest part that is not taken by a bounded number of bytes', async () => {
  const taken = Promise.withResolvers<void>()
  const toTake = new PartsToTake(() => taken.promise, flush, never)
  await toTake.untilRoom(1_000_000, 5)
  toTake.add(partOf(1), digests, next)
  await toTake.untilRoom(15, 5)
  const waiting = toTake.untilRoom(16, 5)
  assert.ok(await isPending(waiting))
  taken.resolve()
  await waiting
  await toTake.end()
})

test('a part that is not taken, synced or digested ends everything with its reason', async () => {
  const reason = new Error('no')
  const fail = async (): Promise<never> => {
    throw reason
  }
  for (const toTake of [new PartsToTake(fail, flush, never), new PartsToTake(flush, fail, never)]) {
    toTake.add(partOf(1), digests, next)
    toTake.add(partOf(2), digests, next)
    await assert.rejects(toTake.untilRoom(100, 5), reason)
    await assert.rejects(toTake.end(), reason)
    assert.equal(toTake.reasonOf(new Error('in its wake')), reason)
    await toTake.settled()
  }
  const toTake = new PartsToTake(flush, flush, never)
  toTake.add(partOf(1), fail(), next)
  await assert.rejects(toTake.end(), reason)
})

test('stopping waits for a sync under way, but not for the taker of a part', async () => {
  const controller = new AbortController()
  const flushed = Promise.withResolvers<void>()
  const flushes: Promise<void>[] = [Promise.resolve(), flushed.promise]
  const toTake = new PartsToTake(
    ({ number }) => (number === 1 ? Promise.resolve() : new Promise(() => {})),
    () => flushes.shift() ?? Promise.resolve(),
    controller.signal,
  )
  toTake.add(partOf(1), digests, next)
  toTake.add(partOf(2), digests, next)
  await turn()
  controller.abort(new Error('stop'))
  const settling = toTake.settled()
  assert.ok(await isPending(settling))
  flushed.resolve()
  await settling
})
