import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import { NoAnswer } from '../files/bounded-calls.ts'
import { FetchPlaces } from './fetch-places.ts'
import type { PlacedFetch } from './fetch-places.ts'

const { signal } = new AbortController()

const of = (source: string, fetch: PlacedFetch['fetch'], isRepeatable = true): PlacedFetch => ({
  source,
  isRepeatable,
  fetch,
})

/** Fetches that run until they are ended or aborted. */
function stage() {
  const places = new FetchPlaces(4)
  const running = new Map<string, () => void>()
  return {
    /** Begins a fetch that is named by its source, a letter, and a number. */
    begin: (name: string, { isRepeatable = true } = {}): Promise<void> => {
      const fetch: PlacedFetch['fetch'] = async (until) => {
        const { promise, resolve } = Promise.withResolvers<void>()
        running.set(name, resolve)
        await abortable(promise, until).finally(() => running.delete(name))
      }
      return places.run(of(name.charAt(0), fetch, isRepeatable), signal)
    },
    end: (name: string): void => running.get(name)?.(),
    running: async (): Promise<string> => {
      await new Promise(setImmediate)
      return [...running.keys()].toSorted().join(' ')
    },
  }
}

test('a source that waits gets a place of the source with the most, whose newest fetch begins again later', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { begin, end, running } = stage()
  const all = ['a1', 'a2', 'a3', 'b1', 'c1'].map((name) => begin(name))
  assert.equal(await running(), 'a1 a2 a3 b1')
  t.mock.timers.tick(limits.imagePlaceWaitMs - 1)
  assert.equal(await running(), 'a1 a2 a3 b1')
  t.mock.timers.tick(1)
  assert.equal(await running(), 'a1 a2 b1 c1')
  // The source of the one that waits has places.
  t.mock.timers.tick(2 * limits.imagePlaceWaitMs)
  assert.equal(await running(), 'a1 a2 b1 c1')
  for (const name of ['c1', 'a1', 'a2', 'b1']) end(name)
  assert.equal(await running(), 'a3')
  end('a3')
  await Promise.all(all)
})

test('a fetch that cannot begin again keeps its place, and so does the only one of its source', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { begin, end, running } = stage()
  const all = [
    ...['a1', 'a2', 'a3'].map((name) => begin(name, { isRepeatable: false })),
    ...['b1', 'c1'].map((name) => begin(name)),
  ]
  t.mock.timers.tick(2 * limits.imagePlaceWaitMs)
  assert.equal(await running(), 'a1 a2 a3 b1')
  for (const name of ['a1', 'a2', 'a3', 'b1']) end(name)
  assert.equal(await running(), 'c1')
  end('c1')
  await Promise.all(all)
})

test('if a write hangs in every place that a source may have, its other fetches say so', async () => {
  const places = new FetchPlaces(4)
  const failure = new Error('on purpose')
  const [begun, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const hangs = (): Promise<void> =>
    assert.rejects(
      places.run(
        of('store', async (_until, onThread) => {
          await begun.promise
          onThread({ hasEnded: false, ended: written.promise })
          throw failure
        }),
        signal,
      ),
      failure,
    )
  const hasNoPlace = (): Promise<void> =>
    assert.rejects(
      places.run(
        of('store', async () => assert.fail('it has a place')),
        signal,
      ),
      NoAnswer,
    )
  const hanging = [hangs(), hangs(), hangs()]
  const waiting = hasNoPlace()
  begun.resolve()
  await Promise.all([...hanging, waiting])
  await hasNoPlace()
  written.resolve()
  await new Promise(setImmediate)
  await places.run(
    of('store', async () => {}),
    signal,
  )
})
