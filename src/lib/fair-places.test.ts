import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { FairPlaces } from './fair-places.ts'

/**
 * Starts tasks that run until they are asked to end. Each is named by its owner, a letter for each part, and a number.
 */
function stage(count: number, options: ConstructorParameters<typeof FairPlaces>[1] = {}) {
  const places = new FairPlaces(count, options)
  const running = new Map<string, () => void>()
  return {
    begin: (name: string, signal = new AbortController().signal): Promise<void> => {
      const task = async (): Promise<void> => {
        const { promise, resolve } = Promise.withResolvers<void>()
        running.set(name, resolve)
        await promise
        running.delete(name)
      }
      return places.run(name.replace(/\d/, '').split(''), task, signal)
    },
    end: (name: string): void => running.get(name)?.(),
    running: async (): Promise<string> => {
      await setImmediate()
      return [...running.keys()].toSorted().join(' ')
    },
  }
}

test('the last free place is for an owner without a place', async () => {
  const { begin, running } = stage(4)
  for (const name of ['a1', 'a2', 'a3', 'a4']) void begin(name)
  assert.equal(await running(), 'a1 a2 a3')
  void begin('b1')
  assert.equal(await running(), 'a1 a2 a3 b1')
})

test('without a reserve one owner has all places, until another one waits', async () => {
  const { begin, end, running } = stage(2, { reserves: false })
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2']) void begin(name)
  assert.equal(await running(), 'a1 a2')
  end('a1')
  assert.equal(await running(), 'a2 b1')
  end('b1')
  assert.equal(await running(), 'a2 b2')
  end('b2')
  assert.equal(await running(), 'a2 a3')
})

test('a place that becomes free goes to the owner with the fewest, and among those to the first that came', async () => {
  const { begin, end, running } = stage(3)
  for (const name of ['a1', 'a2', 'b1', 'a3', 'c1', 'b2']) void begin(name)
  assert.equal(await running(), 'a1 a2 b1')
  end('a1')
  assert.equal(await running(), 'a2 b1 c1')
  end('a2')
  end('b1')
  assert.equal(await running(), 'a3 b2 c1')
})

test('a place that becomes free goes to the widest owner with the fewest, however many are in another', async () => {
  const { begin, end, running } = stage(4)
  for (const name of ['sa1', 'sb1', 'sc1', 'sd1', 'se1', 'ta1', 'ta2']) void begin(name)
  assert.equal(await running(), 'sa1 sb1 sc1 sd1')
  end('sa1')
  assert.equal(await running(), 'sb1 sc1 sd1 ta1')
})

test('the last free place is for an owner without a place, also of a part that has more than others', async () => {
  const { begin, end, running } = stage(4)
  for (const name of ['sa1', 'sb1', 'sc1', 'ta1', 'ta2', 'sd1']) void begin(name)
  assert.equal(await running(), 'sa1 sb1 sc1 ta1')
  end('sa1')
  assert.equal(await running(), 'sb1 sc1 sd1 ta1')
})

test('a single place is never kept free', async () => {
  const { begin, end, running } = stage(1)
  for (const name of ['a1', 'a2']) void begin(name)
  assert.equal(await running(), 'a1')
  end('a1')
  assert.equal(await running(), 'a2')
})

test('a task that is aborted while it waits never runs, and leaves its place to others', async () => {
  const { begin, end, running } = stage(1)
  const abort = new AbortController()
  void begin('a1')
  const waits = begin('b1', abort.signal)
  void begin('c1')
  const rejected = assert.rejects(waits, /on purpose/)
  abort.abort(new Error('on purpose'))
  await rejected
  end('a1')
  assert.equal(await running(), 'c1')
  await assert.rejects(begin('b2', abort.signal), /on purpose/)
})

test('a place that was given in the moment of an abort is given back', async () => {
  const places = new FairPlaces(1)
  const { signal: never } = new AbortController()
  const abort = new AbortController()
  const release = await places.take(['a'], never)
  const waits = assert.rejects(places.take(['b'], abort.signal), /on purpose/)
  release()
  abort.abort(new Error('on purpose'))
  await waits
  assert.equal(await places.run(['c'], async () => 'ran', never), 'ran')
})

test('a task that fails gives its place back', async () => {
  const places = new FairPlaces(1)
  const { signal } = new AbortController()
  const fails = async (): Promise<never> => Promise.reject(new Error('on purpose'))
  await assert.rejects(places.run(['a'], fails, signal), /on purpose/)
  assert.equal(await places.run(['b'], async () => 'ran', signal), 'ran')
})
