import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { abortable, pause } from './abortable.ts'

const never = new Promise<never>(() => {})

test('an abortable promise settles as its promise does', async () => {
  const { signal } = new AbortController()
  assert.equal(await abortable(Promise.resolve(1), signal), 1)
  await assert.rejects(abortable(Promise.reject(new Error('no')), signal), /no/)
})

test('an abortable promise rejects with the reason as soon as the signal aborts, even before the call', async () => {
  const controller = new AbortController()
  const reason = new Error('enough')
  const waiting = abortable(never, controller.signal)
  controller.abort(reason)
  await assert.rejects(waiting, reason)
  await assert.rejects(abortable(never, controller.signal), reason)
})

test('a signal that lives long keeps nothing of a promise that has settled', async () => {
  const { signal } = new AbortController()
  await abortable(Promise.resolve(), signal)
  await assert.rejects(abortable(Promise.reject(new Error('no')), signal), /no/)
  // It is removed after the promise has settled.
  await setImmediate()
  assert.deepEqual(getEventListeners(signal, 'abort'), [])
})

test('a pause ends at its time or at the abort, and leaves no timer behind', async () => {
  let timers = 0
  let ring = (): void => {}
  const clock = {
    after: (_ms: number, callback: () => void) => {
      timers += 1
      ring = callback
      return () => void (timers -= 1)
    },
  }
  const controller = new AbortController()
  const over = pause(clock, 5, controller.signal)
  ring()
  await over
  const cut = pause(clock, 5, controller.signal)
  const reason = new Error('enough')
  controller.abort(reason)
  await assert.rejects(cut, reason)
  await assert.rejects(pause(clock, 5, controller.signal), reason)
  assert.equal(timers, 0)
})
