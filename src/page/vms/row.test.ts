import assert from 'node:assert/strict'
import { test } from 'node:test'
import { vmOnWire } from '../../../test/vm-on-wire.ts'
import { rowOf, agoWords, coarseSpan } from './row.ts'
import type { VmChanges } from '../../../test/vm-on-wire.ts'

const NOW = Date.parse('2030-01-01T15:00:03.204Z')
const now = { nowMs: NOW, residentMib: new Map([['web-1', 310]]) }
const at = (ms: number): string => new Date(NOW - ms).toISOString()
const fault = {
  code: 'network_failed',
  step: 'network.ensure-tap',
  generation: 1,
  since: at(0),
  attempt: 3,
  next_attempt_at: at(-5000),
}

const row = (changes: VmChanges = {}) => rowOf(vmOnWire('web-1', changes), now)

test('a row says in words how a VM stands', () => {
  const labels = { env: 'prod', tier: 'web' }
  assert.deepEqual(row({ labels, observed: { last_traffic_at: at(3_600_000) } }), {
    id: 'web-1',
    tone: 'good',
    state: 'running',
    since: '3 h',
    note: '',
    error: '',
    memory: '512 MiB',
    resident: '310 MiB resident',
    traffic: '60 min ago',
    trafficAt: at(3_600_000),
    addresses: '192.0.2.10 2001:db8::10',
    labels: 'env=prod tier=web',
  })
})

test('an error is shown whole, its cause first', () => {
  const error = 'network.ensure-tap: making tap vmt1: EBUSY: device or resource busy'
  const { tone, error: shown } = row({ observed: { error, fault } })
  assert.equal(tone, 'bad')
  assert.equal(
    shown,
    'EBUSY: device or resource busy (making tap vmt1), in network.ensure-tap (network_failed, attempt 3)',
  )
  assert.equal(
    row({ observed: { error: 'network.inspect: no answer' } }).error,
    'no answer, in network.inspect',
  )
  assert.notEqual(row({ observed: { state: 'failed' } }).error, '')
})

for (const [note, tone, changes] of [
  [
    'waits for the monitor to answer',
    'busy',
    { observed: { state: 'starting', waiting_for: 'the monitor to answer' } },
  ],
  [
    'waits for memory: place 2, 1 GiB missing',
    'busy',
    {
      observed: {
        state: 'waking',
        waiting_for: 'memory',
        memory_queue: { place: 2, missing_mib: 1024, since: at(0) },
      },
    },
  ],
  [
    'stops hard in 30 s',
    'busy',
    { observed: { stops_hard_at: at(-30_000) }, generations: { desired: 2, observed: 1 } },
  ],
  ['a change is being applied', 'busy', { generations: { desired: 2, observed: 1 } }],
  ['the guest ended by itself', 'off', { observed: { state: 'stopped' } }],
  ['', 'off', { observed: { state: 'stopped' }, desired: { power: 'stopped' } }],
  ['', 'asleep', { observed: { state: 'sleeping' } }],
  // The error says what is wrong.
  ['', 'bad', { observed: { error: 'x' }, generations: { desired: 2, observed: 1 } }],
] as const satisfies [string, string, VmChanges][])
  test(`a VM is ${tone} and its note is "${note}"`, () => {
    const shown = row(changes)
    assert.deepEqual([shown.note, shown.tone], [note, tone])
  })

test('what is not known is said, and not shown as zero', () => {
  assert.equal(row().traffic, 'none yet')
  const { network: _, ...desired } = vmOnWire('x').desired
  const vm = { ...vmOnWire('other'), desired }
  const shown = rowOf(vm, now)
  assert.deepEqual([shown.traffic, shown.addresses, shown.resident], ['no network', '', ''])
})

test('a span has one unit', () => {
  const MINUTE = 60_000
  for (const [words, ms] of [
    ['under 1 min', -5],
    ['under 1 min', 59_999],
    ['1 min', MINUTE],
    ['119 min', 119 * MINUTE],
    ['2 h', 120 * MINUTE],
    ['47 h', 47 * 60 * MINUTE],
    ['2 d', 48 * 60 * MINUTE],
  ] as const)
    assert.equal(coarseSpan(ms), words)
  assert.equal(agoWords(119_999), 'just now')
  assert.equal(agoWords(-3 * MINUTE), 'just now')
  assert.equal(agoWords(120_000), '2 min ago')
})
