import assert from 'node:assert/strict'
import { test } from 'node:test'
import { monitorStateOf } from './qemu-run-state.ts'

test('a guest runs, also while it sleeps by its own will', () => {
  assert.deepEqual(monitorStateOf('running'), { kind: 'running' })
  assert.deepEqual(monitorStateOf('suspended'), { kind: 'running' })
})

test('a guest that was stopped, or not yet let go, is paused', () => {
  assert.deepEqual(monitorStateOf('paused'), { kind: 'paused' })
  assert.deepEqual(monitorStateOf('prelaunch'), { kind: 'paused' })
})

for (const status of ['shutdown', 'internal-error', 'guest-panicked', 'io-error', 'watchdog', 'a-new-one']) {
  test(`${status} is the monitor's own word for a guest that is over`, () => {
    assert.deepEqual(monitorStateOf(status), { kind: 'broken', status })
  })
}
