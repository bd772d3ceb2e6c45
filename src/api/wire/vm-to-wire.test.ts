import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { vmToWire } from './vm-to-wire.ts'
import type { Observed } from '../../core/vm/record.ts'
import type { VmWire } from './vm.ts'

const shown = (observed: Partial<Observed>): VmWire['observed'] =>
  vmToWire(recordOf({ observed: { state: 'stopped', sinceMs: 0, ...observed } })).observed

test('a disk that the last look did not find is not shown', () => {
  assert.deepEqual(shown({ disk: { sizeMib: 64 } }).disk, { size_mib: 64 })
  assert.equal(shown({ disk: { sizeMib: 64, unseen: true } }).disk, undefined)
})

test('no path of the host is shown with a partial fault', () => {
  const message = 'cannot read /var/lib/vmhostd/pool/disks/web-1/disk.raw'
  const { partial_faults: [fault] = [] } = shown({
    partialFaults: [{ code: 'storage_failed', step: 'storage.inspect', message }],
  })
  assert.equal(fault?.code, 'storage_failed')
  assert.doesNotMatch(fault?.detail ?? '', /vmhostd/)
  assert.match(fault?.detail ?? '', /cannot read/)
})

test('a VM that waits for memory shows its place', () => {
  assert.deepEqual(shown({ memoryQueue: { place: 2, missingMib: 128, sinceMs: 0 } }).memory_queue, {
    place: 2,
    missing_mib: 128,
    since: '1970-01-01T00:00:00.000Z',
  })
})

test('a stop without a request is that of the host', () => {
  const reasonOf = (generation?: number): unknown =>
    shown({ lastStop: { atMs: 0, kind: 'hard', ...(generation && { generation }) } }).last_stop?.reason
  assert.deepEqual([reasonOf(), reasonOf(2)], ['host_shutdown', 'request'])
})
