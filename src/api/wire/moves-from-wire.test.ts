import assert from 'node:assert/strict'
import { test } from 'node:test'
import { manifest } from '../../../test/daemon/support/coordination-host.ts'
import { manifestToWire } from './manifest.ts'
import { manifestFromWire } from './moves-from-wire.ts'

test('a manifest is the same after its way over the wire', () => {
  const { network: _, ...vm } = manifest.vm.desired
  const { network: __, expiresAtMs: ___, ...bare } = manifest
  for (const sent of [manifest, { ...bare, vm: { ...manifest.vm, desired: vm } }])
    assert.deepEqual(manifestFromWire(JSON.parse(JSON.stringify(manifestToWire(sent)))), sent)
})
