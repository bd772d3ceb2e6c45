import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { Refused } from '../listener/refused.ts'
import { EventReaders } from './event-readers.ts'

async function* texts(): AsyncGenerator<string> {
  yield 'one'
  yield 'two'
}

test('a reader that takes nothing for too long is ended, and one that is slow but reads is not', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const ended: string[] = []
  const stream = new EventReaders().take(texts(), (because) => ended.push(because))
  await stream.next()
  mock.timers.tick(limits.eventReaderStallMs - 1)
  assert.equal((await stream.next()).value, 'two')
  mock.timers.tick(limits.eventReaderStallMs - 1)
  assert.deepEqual(ended, [])
  mock.timers.tick(1)
  assert.deepEqual(ended, ['stalled'])
})

test('no timer is left of a reader that went away', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const stream = new EventReaders().take(texts(), () => assert.fail('ended'))
  await stream.next()
  await stream.return(undefined)
  mock.timers.tick(2 * limits.eventReaderStallMs)
})

test('a reader beyond the bound is refused, until another one has gone', () => {
  const readers = new EventReaders()
  const take = () => readers.take(texts(), () => {})
  for (let count = 0; count < limits.eventReadersMax; count += 1) take()
  assert.throws(take, (error) => error instanceof Refused && error.rejection.code === 'event_readers_full')
  readers.release()
  take()
  assert.equal(readers.count, limits.eventReadersMax)
})
