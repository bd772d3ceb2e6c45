import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { VmId } from '../ids.ts'
import { judgeSavedState, judgeShape } from './judge-saved-state.ts'
import { parseSavedMetadata, renderSavedMetadata } from './saved-metadata.ts'
import type { SavedMetadata } from './saved-metadata.ts'

const metadata: SavedMetadata = {
  vmId: 'web-1' as VmId,
  savedAtMs: 1_700_000_000_123,
  monitor: { program: 'qemu-system-x86_64', version: '10.0.13', accelerator: 'tcg', form: 'stream' },
  compute: { cpuMillicores: 1500, memoryMib: 256 },
  memory: { lengthBytes: 273_678_336, storedBytes: 88_080_385, crc32: 0xffff_ffff },
  // Values that a double cannot hold: 2^63 + 1, and a time in nanoseconds.
  disk: {
    inode: 9_223_372_036_854_775_809n,
    sizeBytes: 2_147_483_648,
    modifiedNs: 1_700_000_000_123_456_789n,
  },
}

test('metadata is read as it was written, to the last digit', () => {
  const parsed = parseSavedMetadata(renderSavedMetadata(metadata))
  assert.ok(parsed.ok)
  assert.deepEqual(parsed.value, metadata)
})

test('metadata of format 1 is of mapped memory', () => {
  const written = JSON.parse(renderSavedMetadata(metadata))
  const { memory_form: _later, ...monitor } = written.monitor
  const parsed = parseSavedMetadata(JSON.stringify({ ...written, format: 1, monitor }))
  assert.ok(parsed.ok)
  assert.deepEqual(parsed.value, { ...metadata, monitor: { ...metadata.monitor, form: 'mapped' } })
})

test("metadata names its monitor's format if there is one, and an older daemon reads it if there is none", () => {
  assert.equal(JSON.parse(renderSavedMetadata(metadata)).format, 2)
  const formatted = { ...metadata, monitor: { ...metadata.monitor, format: '10.0.0' } }
  const text = renderSavedMetadata(formatted)
  assert.equal(JSON.parse(text).format, 3)
  const parsed = parseSavedMetadata(text)
  assert.ok(parsed.ok)
  assert.deepEqual(parsed.value, formatted)
})

test('every member is needed, and none may be added', () => {
  const text = renderSavedMetadata(metadata)
  const members = text.match(/^ *"\w+":/gm) ?? []
  assert.ok(members.length > 15)
  for (const member of members) {
    for (const changed of [member.replace('":', 'x":'), `${member} 1, "extra":`]) {
      const parsed = parseSavedMetadata(text.replace(member, changed))
      assert.ok(!parsed.ok, changed)
      assert.equal(parsed.error.code, 'saved_state_corrupt')
    }
  }
})

test('what is not metadata at all is damaged, and a later format too new', () => {
  for (const content of [
    '',
    'null',
    '[]',
    '1',
    '{}',
    '{"format": "1"}',
    '{"format": 0}',
    '{"format": 1.5}',
  ]) {
    const parsed = parseSavedMetadata(content)
    assert.ok(!parsed.ok && parsed.error.code === 'saved_state_corrupt', content)
  }
  const later = parseSavedMetadata('{"format": 4, "anything": true}')
  assert.ok(!later.ok && later.error.code === 'saved_state_too_new')
})

test('the size is rounded up, so that no state appears to take no space', () => {
  const state = judgeSavedState(metadata, {
    vmId: metadata.vmId,
    monitor: metadata.monitor,
    memoryLengthBytes: metadata.memory.lengthBytes,
    disk: metadata.disk,
  })
  assert.ok(state.kind === 'present')
  assert.equal(state.sizeMib, 85)
})

test('a saved guest is restored only in a machine of its own shape', () => {
  const saved = {
    kind: 'present',
    savedAtMs: 1,
    sizeMib: 8,
    memoryMib: 256,
    vcpus: 2,
    form: 'stream',
  } as const
  const kindWith = (memoryMib: number, cpuMillicores: number): string =>
    judgeShape(saved, { memoryMib, cpuMillicores, sleepAfterIdleSeconds: 60 }).kind
  assert.equal(kindWith(256, 2000), 'present')
  assert.equal(kindWith(256, 1001), 'present', 'vCPUs are whole')
  assert.equal(kindWith(256, 1000), 'unusable')
  assert.equal(kindWith(512, 2000), 'unusable')
})
