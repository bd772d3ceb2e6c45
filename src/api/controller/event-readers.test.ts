import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { Refused } from '../listener/refused.ts'
import { EventReaders } from './event-readers.ts'
import type { Role } from './clients.ts'
import type { TakenStream } from './event-readers.ts'

const anna = { name: 'anna', role: 'reader' } as const

async function* texts(): AsyncGenerator<string> {
  yield 'one'
  yield 'two'
}

test('a reader that takes nothing for too long is ended, and one that is slow but reads is not', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const ended: string[] = []
  const { texts: stream } = new EventReaders().take(anna, texts(), (because) => ended.push(because))
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
  const { texts: stream } = new EventReaders().take(anna, texts(), () => assert.fail('ended'))
  await stream.next()
  await stream.return(undefined)
  mock.timers.tick(2 * limits.eventReaderStallMs)
})

type Taken = Pick<TakenStream, 'release'>

/** Takes as many places as there are for clients of these names. */
function fill(readers: EventReaders, role: Role, name: (index: number) => string): readonly Taken[] {
  const taken: Taken[] = []
  try {
    for (;;) taken.push(readers.take({ name: name(taken.length), role }, texts(), () => {}))
  } catch (error) {
    assert.ok(error instanceof Refused && error.rejection.code === 'event_readers_full', String(error))
    return taken
  }
}

test('one client has a bound of its own, and another one finds places then', () => {
  const readers = new EventReaders()
  assert.equal(fill(readers, 'controller', () => 'anna').length, limits.eventReadersPerClientMax)
  assert.equal(fill(readers, 'controller', () => 'ben').length, limits.eventReadersPerClientMax)
})

test('readers leave places for controllers, whatever their number', () => {
  const readers = new EventReaders()
  const ofReaders = fill(readers, 'reader', (index) => `reader-${index}`)
  assert.equal(ofReaders.length, limits.eventReadersOthersMax)
  const ofControllers = fill(readers, 'controller', (index) => `controller-${index}`)
  assert.equal(readers.count, limits.eventReadersMax)
  assert.equal(ofControllers.length, limits.eventReadersMax - limits.eventReadersOthersMax)
})

test('a reader beyond the bound is refused, until another one has gone', () => {
  const readers = new EventReaders()
  const [first] = fill(readers, 'controller', (index) => `controller-${index}`)
  assert.equal(readers.count, limits.eventReadersMax)
  first?.release()
  first?.release()
  assert.equal(fill(readers, 'controller', () => 'anna').length, 1)
})
