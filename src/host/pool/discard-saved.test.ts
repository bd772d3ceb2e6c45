import assert from 'node:assert/strict'
import {
  closeSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { holdLease } from '../../../test/hold-lease.ts'
import { discardSaved } from './discard-saved.ts'
import { MEMORY, metadataPath } from './pool-paths.ts'
import { renderSavedMetadata } from '../../core/saved/saved-metadata.ts'
import type { SavedMetadata } from '../../core/saved/saved-metadata.ts'
import type { SaveForm } from '../../core/world/saved-state.ts'
import type { VmId } from '../../core/ids.ts'

/** More than enough for the calls of two discards to interleave in every order. */
const ROUNDS = 200

test('two discards of one saved state at once, by a sweep and a removal, both succeed and remove it', async (t) => {
  const base = mkdtempSync(join(tmpdir(), 'vmh-discard-'))
  t.after(() => rmSync(base, { recursive: true }))
  for (let round = 0; round < ROUNDS; round += 1) {
    const directory = join(base, `saved-${round}`)
    mkdirSync(directory)
    writeFileSync(join(directory, MEMORY), 'memory')
    await Promise.all([discardSaved(directory), discardSaved(directory)])
  }
  assert.deepEqual(readdirSync(base), [])
})

for (const [form, bytesLeft] of [
  ['mapped', 0],
  ['stream', 0],
  ['backing', 6],
] as const) {
  test(`the memory of a removed state in form ${form}, which a monitor has open, has ${bytesLeft} bytes left`, async (t) => {
    const base = mkdtempSync(join(tmpdir(), 'vmh-discard-'))
    t.after(() => rmSync(base, { recursive: true }))
    const directory = join(base, 'saved-1')
    mkdirSync(directory)
    writeFileSync(join(directory, MEMORY), 'memory')
    writeFileSync(metadataPath(directory), renderSavedMetadata(metadataOf(form)))
    const open = openSync(join(directory, MEMORY), 'r')
    t.after(() => closeSync(open))
    await discardSaved(directory)
    assert.deepEqual(readdirSync(base), [])
    assert.equal(fstatSync(open).size, bytesLeft)
  })
}

test(
  'a discard does not wait for a lease that a monitor holds on the memory',
  { timeout: 5000 },
  async (t) => {
    const base = mkdtempSync(join(tmpdir(), 'vmh-discard-'))
    t.after(() => rmSync(base, { recursive: true }))
    const directory = join(base, 'saved-1')
    mkdirSync(directory)
    writeFileSync(join(directory, MEMORY), 'memory')
    holdLease(t, join(directory, MEMORY))
    await discardSaved(directory)
    assert.deepEqual(readdirSync(base), [])
  },
)

const metadataOf = (form: SaveForm): SavedMetadata => ({
  vmId: 'web-1' as VmId,
  savedAtMs: 1,
  monitor: { program: 'monitor', version: '1.0', accelerator: 'kvm', form },
  compute: { cpuMillicores: 1000, memoryMib: 128 },
  memory: { lengthBytes: 6, storedBytes: 6, crc32: 0 },
  disk: { inode: 1n, sizeBytes: 1, modifiedNs: 1n },
})
