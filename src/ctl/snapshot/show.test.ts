import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderSnapshot } from './show.ts'
import type { Snapshot } from '../../client/api-client.ts'

const snapshot: Snapshot = {
  id: 'nightly-1',
  vm_id: 'web-1',
  status: 'uploading',
  progress: { phase: 'packing', done_mib: 310, total_mib: 2048, percent: 15 },
  needs_urls: false,
  parts: { part_size_mib: 64, packed: 3, sent: 2 },
  size_mib: 2048,
  staged_mib: 192,
  consistency: 'file_system',
  captured_at: '2030-01-01T12:00:00.000Z',
  last_activity_at: '2030-01-01T12:00:09.000Z',
  revision: 31,
  created_at: '2030-01-01T12:00:00.000Z',
  updated_at: '2030-01-01T12:00:09.000Z',
}

const shown = (changes: object): string =>
  renderSnapshot({ ...snapshot, ...changes }, Date.UTC(2030, 0, 1, 12, 1), (word) => word)

test('phase and consistency are shown in words', () => {
  assert.match(shown({}), /^ {2}status +uploading: compressing and sending$/m)
  assert.match(shown({}), /^ {2}consistency +file systems were flushed and frozen by an agent in the guest$/m)
})

test('a phase that says the same as the status is not shown beside it', () => {
  for (const status of ['failed', 'completed'] as const) {
    const text = shown({ status, progress: { ...snapshot.progress, phase: status } })
    assert.match(text, new RegExp(`^ {2}status +${status}$`, 'm'))
  }
})

test('words that a newer daemon adds are shown as they are', () => {
  const text = shown({ progress: { ...snapshot.progress, phase: 'toString' }, consistency: 'application' })
  assert.match(text, /^ {2}status +uploading: toString$/m)
  assert.match(text, /^ {2}consistency +application$/m)
})
