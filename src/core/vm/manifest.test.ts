import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { manifestOf } from './manifest.ts'
import type { Departure } from '../migration/departure.ts'
import type { MigrationId, NodeName } from '../migration/offer.ts'

const departure: Departure = {
  id: 'move-7' as MigrationId,
  node: 'node-2' as NodeName,
  mode: 'cold',
  stage: 'withdrawn',
  sinceMs: 1,
}
const monitor = {
  program: 'qemu-system-x86_64',
  version: '10.0.2',
  accelerator: 'tcg',
  form: 'mapped',
} as const
const needs = {
  monitor,
  processor: { vendor: 'emulated', features: [] },
  inputs: { request: '{}', userData: '#cloud-config', sshAuthorizedKeys: [], sources: new Map() },
  sshHostKey: 'SHA256:host',
  daemonSshKey: 'ssh-ed25519 AAAA vmhostd@host-1',
}
const savedState = { savedAtMs: 1, sizeMib: 10, memoryMib: 256 }

test('a manifest outlives the offer that a request withdrew', () => {
  const { stage, mode, expiresAtMs } = manifestOf(recordOf(), departure, needs)
  assert.deepEqual([stage, mode, expiresAtMs], ['withdrawn', 'cold', undefined])
})

for (const [power, isSaved, shown] of [
  ['running', false, 'running'],
  ['running', true, 'sleeping'],
  ['paused', false, 'paused'],
  ['stopped', false, 'stopped'],
] as const) {
  test(`a VM of desired power ${power}, ${isSaved ? 'saved' : 'not saved'}, is ${shown} in its manifest`, () => {
    const record = recordOf()
    const observed = { ...record.observed, ...(isSaved ? { savedState } : {}) }
    const seen = { ...record, desired: { ...record.desired, power }, observed }
    assert.equal(manifestOf(seen, departure, needs).power, shown)
  })
}

test('a guest that has ended for good counts as stopped', () => {
  const record = recordOf()
  const ended = { ...record, observed: { ...record.observed, endedAtPower: record.powerGeneration } }
  const { power, vm } = manifestOf(ended, departure, needs)
  assert.deepEqual([power, vm.ended], ['stopped', true])
})

test('a guest that is woken counts as running, and one that is handed over as it lived before', () => {
  const base = recordOf()
  const woken = {
    ...base,
    observed: { ...base.observed, savedState },
    wake: { reason: 'traffic', atMs: 2 },
  } as const
  assert.equal(manifestOf(woken, departure, needs).power, 'running')
  assert.equal(manifestOf(woken, { ...departure, lived: 'sleeping' }, needs).power, 'sleeping')
})

test('a manifest has all that belongs to the VM, and neither its offer nor the URLs of its images', () => {
  const offer = { id: departure.id, node: departure.node, mode: 'cold', expiresAtMs: 9 } as const
  const base = recordOf({ exitStreak: 2, keepAwakeUntilMs: 5000 })
  const { vm } = manifestOf({ ...base, desired: { ...base.desired, migration: offer } }, departure, needs)
  assert.deepEqual(vm, {
    desired: base.desired,
    monitor: 'qemu',
    metadata: base.metadata,
    createdAtMs: 1000,
    inputs: { request: '{}', userData: '#cloud-config', sshAuthorizedKeys: [] },
    sshHostKey: 'SHA256:host',
    daemonSshKey: 'ssh-ed25519 AAAA vmhostd@host-1',
    exitStreak: 2,
    keepAwakeUntilMs: 5000,
  })
})
