import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { abortable } from './abortable.ts'

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
