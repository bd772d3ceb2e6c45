import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeMonitor } from '../../../test/fakes/fake-monitor.ts'
import { recordOf, worldOf } from '../../../test/record.ts'
import { partialFaults } from './partial-faults.ts'
import type { FirewallState } from '../world/network-state.ts'

const facts = {
  silentMs: 0,
  capabilities: new FakeMonitor().capabilities,
} as const

const faultsBeside = (firewall: FirewallState): readonly string[] =>
  partialFaults(recordOf(), worldOf({ firewall: { known: true, value: firewall } }), facts).map(
    ({ code, message }) => `${code}: ${message}`,
  )

test('a table that is gone or altered is a fault of every guest that runs', () => {
  assert.deepEqual(faultsBeside({ kind: 'absent' }), [
    'firewall_failed: the unit is active, but the table inet vmhostd is absent',
  ])
  assert.deepEqual(faultsBeside({ kind: 'altered' }), [
    'firewall_failed: the unit is active, but the table inet vmhostd is altered',
  ])
})

test('a table that this daemon has not written yet is not a fault', () => {
  assert.deepEqual(faultsBeside({ kind: 'unverified' }), [])
  assert.deepEqual(faultsBeside({ kind: 'intact' }), [])
})
