import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { checkerFor } from '../../lib/schema-check.ts'
import { exampleManifest } from './examples.ts'
import { manifestSchema } from './manifest.ts'

const check = checkerFor(manifestSchema, new Map())

/** Returns the places at which a manifest with other members is wrong. */
const wrongAt = (vm: object, of: object = {}): readonly string[] =>
  check({ ...exampleManifest, ...of, vm: { ...exampleManifest.vm, ...vm } }).map(({ pointer }) => pointer)

test('a manifest may have as much as a request to create its VM', () => {
  const most = {
    user_data: 'x'.repeat(limits.userDataBytesMax),
    ssh_authorized_keys: Array(limits.sshKeysMax).fill(exampleManifest.vm.daemon_ssh_key),
    ssh_host_key: 'SHA256:uNiVztksCsDhcc0u9e8BrBYn1tYcoFTCqfEVcC1WbC0',
    request: 'x'.repeat(limits.bodyBytesMax),
  }
  assert.deepEqual(wrongAt(most), [])
})

test('a manifest with more is refused', () => {
  const { monitor, processor } = exampleManifest
  const long = 'x'.repeat(limits.manifestNameCharactersMax + 1)
  const features = Array(limits.processorFeaturesMax + 1).fill('fpu')
  const keys = Array(limits.sshKeysMax + 1).fill(exampleManifest.vm.daemon_ssh_key)
  assert.deepEqual(wrongAt({ user_data: 'x'.repeat(limits.userDataBytesMax + 1) }), ['/vm/user_data'])
  assert.deepEqual(wrongAt({ ssh_authorized_keys: keys }), ['/vm/ssh_authorized_keys'])
  assert.deepEqual(wrongAt({ ssh_authorized_keys: ['no key'] }), ['/vm/ssh_authorized_keys/0'])
  assert.deepEqual(wrongAt({ ssh_host_key: 'no fingerprint' }), ['/vm/ssh_host_key'])
  assert.deepEqual(wrongAt({ request: 'x'.repeat(limits.bodyBytesMax + 1) }), ['/vm/request'])
  assert.deepEqual(wrongAt({}, { monitor: { ...monitor, version: long } }), ['/monitor/version'])
  assert.deepEqual(wrongAt({}, { processor: { ...processor, features } }), ['/processor/features'])
  assert.deepEqual(wrongAt({}, { processor: { ...processor, features: [long] } }), ['/processor/features/0'])
})
