import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { BoundedLooks } from '../files/bounded-looks.ts'
import { poolPaths } from '../pool/pool-paths.ts'
import { allocatedBytes, PoolStaging } from './pool-staging.ts'
import type { TestContext } from 'node:test'
import type { StagingId } from '../../core/snapshots/record.ts'

const stagingId = 'nightly-1.op-1' as StagingId

/**
 * Reads a part whose file is missing, and returns the code of the fault. `onLook` is called at each look at the pool.
 */
async function codeOfMissing(t: TestContext, onLook: (packed: string) => void): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'staging-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const paths = poolPaths(directory)
  const staging = new PoolStaging({
    paths,
    looks: new BoundedLooks({ code: 'storage_inspection_failed', places: 1 }),
    verify: async () => onLook(paths.stagedPacked(stagingId)),
    ready: async () => {},
    terms: {},
  })
  const part = staging.partBody(stagingId, { offsetBytes: 0, bytes: 4 })
  try {
    for await (const _chunk of part.chunks(new AbortController().signal));
    return 'none'
  } catch (error) {
    assert.ok(error instanceof HostFault)
    return error.code
  }
}

test('staging without a file that it needs is lost', async (t) => {
  assert.equal(await codeOfMissing(t, () => {}), 'staging_lost')
})

test('staging is not lost if its file is there again when the pool is in sight', async (t) => {
  const comesBack = (packed: string): void => {
    mkdirSync(dirname(packed), { recursive: true })
    writeFileSync(packed, 'part')
  }
  assert.equal(await codeOfMissing(t, comesBack), 'storage_failed')
})

test('staging is not lost while the pool is out of sight', async (t) => {
  const gone = (): void => {
    throw new HostFault('storage_inspection_failed', 'looking for the storage pool')
  }
  assert.equal(await codeOfMissing(t, gone), 'storage_inspection_failed')
})

test('a file takes what is allocated for it, without what its file system has reserved behind its end', () => {
  assert.equal(allocatedBytes({ blocks: 0, size: 4096 }), 0)
  assert.equal(allocatedBytes({ blocks: 8, size: 8192 }), 4096, 'with a hole')
  assert.equal(allocatedBytes({ blocks: 16, size: 5000 }), 5000)
})
