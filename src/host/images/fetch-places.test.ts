import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NoAnswer } from '../files/bounded-calls.ts'
import { FetchPlaces } from './fetch-places.ts'

const { signal } = new AbortController()

test('if a write hangs in every place that a source may have, its other fetches say so', async () => {
  const places = new FetchPlaces(4)
  const failure = new Error('on purpose')
  const [begun, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const hangs = (): Promise<void> =>
    assert.rejects(
      places.run(
        'store',
        async (onThread) => {
          await begun.promise
          onThread({ hasEnded: false, ended: written.promise })
          throw failure
        },
        signal,
      ),
      failure,
    )
  const hasNoPlace = (): Promise<void> =>
    assert.rejects(
      places.run('store', async () => assert.fail('it has a place'), signal),
      NoAnswer,
    )
  const hanging = [hangs(), hangs(), hangs()]
  const waiting = hasNoPlace()
  begun.resolve()
  await Promise.all([...hanging, waiting])
  await hasNoPlace()
  written.resolve()
  await new Promise(setImmediate)
  await places.run('store', async () => {}, signal)
})
