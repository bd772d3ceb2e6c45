import assert from 'node:assert/strict'
import { test } from 'node:test'
import { monitorStateOf } from './qemu-run-state.ts'

const disk = { sizeMib: 64 }

test('a guest runs, also while it sleeps by its own will', () => {
  assert.deepEqual(monitorStateOf('running', disk), { kind: 'running', disk })
  assert.deepEqual(monitorStateOf('suspended', disk), { kind: 'running', disk })
})

test('a guest that was stopped, or not yet started, is paused', () => {
  assert.deepEqual(monitorStateOf('paused', disk), { kind: 'paused', disk })
  assert.deepEqual(monitorStateOf('prelaunch', disk), { kind: 'paused', disk })
})

for (const status of ['finish-migrate', 'postmigrate', 'save-vm']) {
  test(`a guest that is or was saved is paused: ${status}`, () => {
    assert.deepEqual(monitorStateOf(status, disk), { kind: 'paused', disk })
  })
}

test('a guest that is being restored is neither paused nor ended', () => {
  assert.deepEqual(monitorStateOf('inmigrate', disk), { kind: 'restoring' })
})

test('a guest whose disk failed is stalled, and has not ended', () => {
  assert.deepEqual(monitorStateOf('io-error', disk), { kind: 'stalled', status: 'io-error', disk })
})

for (const status of ['shutdown', 'internal-error', 'guest-panicked', 'watchdog', 'a-new-one']) {
  test(`${status} is the monitor's own word for a guest that has ended`, () => {
    assert.deepEqual(monitorStateOf(status, disk), { kind: 'broken', status })
  })
}
