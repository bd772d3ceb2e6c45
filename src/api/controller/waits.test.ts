import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { Waits } from './waits.ts'

/** Waits for resources that the test lets change. */
function stage() {
  let change = (_id: string): void => {}
  const waits = new Waits<string>((listener) => {
    change = listener
    return () => {}
  })
  return { waits, change: (id: string) => change(id) }
}

test('a wait ends with a change of its resource, and not of another', async () => {
  const { waits, change } = stage()
  const { signal } = new AbortController()
  const wait = waits.change('web-1', 60_000, signal)
  change('web-2')
  assert.equal(waits.size, 1)
  change('web-1')
  await wait
  assert.equal(waits.size, 0)
})

test('a wait ends with its signal, and leaves nothing at a signal that outlives it', async () => {
  const { waits, change } = stage()
  const ending = new AbortController()
  for (let wait = 0; wait < 3; wait += 1) {
    const waited = waits.change('web-1', 60_000, ending.signal)
    assert.equal(getEventListeners(ending.signal, 'abort').length, 1)
    change('web-1')
    await waited
  }
  assert.deepEqual(getEventListeners(ending.signal, 'abort'), [])
  const last = waits.change('web-1', 60_000, ending.signal)
  ending.abort()
  await last
  assert.equal(waits.size, 0)
})
