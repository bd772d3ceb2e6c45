import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventWords, timeWords } from './event-words.ts'
import type { HostEvent } from '../../client/events.ts'

const tcp = {
  protocol: 'tcp',
  source: '198.51.100.7',
  source_port: 50_412,
  destination: '192.0.2.10',
  destination_port: 443,
}
const udp6 = { ...tcp, protocol: 'udp', source: '2001:db8::7', destination: '2001:db8::10' }

for (const [words, event] of [
  ['created', { kind: 'vm_created', to: 'pending' }],
  [
    'power stopped requested (generation 5)',
    { kind: 'vm_requested', generation: 5, power: 'stopped', changes: ['power'] },
  ],
  [
    'power running and another compute, disk requested (generation 5)',
    { kind: 'vm_requested', generation: 5, power: 'running', changes: ['compute', 'disk', 'power'] },
  ],
  [
    'power running requested (generation 5)',
    { kind: 'vm_requested', generation: 5, power: 'running', changes: [] },
  ],
  [
    'a move or its end requested (generation 5)',
    { kind: 'vm_requested', generation: 5, power: 'running', changes: ['migration'] },
  ],
  [
    'stop of the guest requested, power stays running (generation 6)',
    { kind: 'vm_requested', generation: 6, power: 'running', changes: [], stops: true },
  ],
  [
    'deletion requested (generation 6)',
    { kind: 'vm_requested', generation: 6, power: 'running', changes: [], deletes: true },
  ],
  [
    'deletion due by the exit policy (generation 6)',
    { kind: 'vm_requested', generation: 6, power: 'stopped', changes: [], deletes: true, due: true },
  ],
  ['as desired (generation 5)', { kind: 'vm_reached', generation: 5 }],
  ['starting → running', { kind: 'vm_state', from: 'starting', to: 'running' }],
  [
    'the guest panicked, 1 min 2 s after it started or woke',
    { kind: 'vm_exit', detail: 'the guest panicked', ran_seconds: 62 },
  ],
  ['stopped, graceful', { kind: 'vm_stop', how: 'graceful' }],
  [
    'waking for traffic: tcp 198.51.100.7:50412 → 192.0.2.10:443',
    { kind: 'vm_waking', reason: 'traffic', packet: tcp },
  ],
  [
    'waking for traffic: udp [2001:db8::7]:50412 → [2001:db8::10]:443',
    { kind: 'vm_waking', reason: 'traffic', packet: udp6 },
  ],
  ['waking by a request for its power', { kind: 'vm_waking', reason: 'power' }],
  ['waking as it came from another host', { kind: 'vm_waking', reason: 'arrived' }],
  ['waking because it did not move to another host', { kind: 'vm_waking', reason: 'withdrawn' }],
  [
    'awake after 180 ms, packets: 2 held, 1 dropped',
    { kind: 'vm_woken', duration_ms: 180, held_packets: 2, dropped_packets: 1 },
  ],
  [
    'network.ensure-tap: no memory (network_failed)',
    { kind: 'vm_fault', step: 'network.ensure-tap', detail: 'no memory', code: 'network_failed' },
  ],
  [
    'monitor.ensure-saved no longer fails (save_failed)',
    { kind: 'vm_fault_ended', step: 'monitor.ensure-saved', code: 'save_failed' },
  ],
  [
    'leaves for node-2 (move-7): copying → withdrawn, expired',
    {
      kind: 'vm_migration',
      side: 'source',
      migration_id: 'move-7',
      node: 'node-2',
      from: 'copying',
      to: 'withdrawn',
      because: 'expired',
    },
  ],
  [
    'leaves for node-2 (move-7): offered → withdrawn, by request',
    {
      kind: 'vm_migration',
      side: 'source',
      migration_id: 'move-7',
      node: 'node-2',
      from: 'offered',
      to: 'withdrawn',
      because: 'withdrawn',
    },
  ],
  [
    'power stopped and another disk and a move or its end requested (generation 5)',
    { kind: 'vm_requested', generation: 5, power: 'stopped', changes: ['disk', 'migration', 'power'] },
  ],
  [
    'snapshot nightly: uploading → failed: no room',
    { kind: 'snapshot_state', snapshot_id: 'nightly', from: 'uploading', to: 'failed', detail: 'no room' },
  ],
  ['days_left=20 name=server', { kind: 'certificate', days_left: 20, name: 'server' }],
] as const) {
  test(`an event in words: ${words}`, () => {
    const whole = { sequence: 7, at: '2030-01-01T12:00:00.123Z', vm_id: 'web-1', ...event }
    assert.equal(eventWords(whole as unknown as HostEvent), words)
  })
}

test('the time of an event is shown to the second', () => {
  assert.equal(
    timeWords({ sequence: 1, at: '2030-01-01T12:00:00.123Z', kind: 'vm_state' }),
    '2030-01-01 12:00:00Z',
  )
})
