import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { silentLog } from '../../log/log.ts'
import { Pool } from './pool.ts'
import type { Sha256 } from '../../core/ids.ts'

test('an image from another host is closed unread while the pool is out of sight', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'pool-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const pool = new Pool({ directory, poolId: 'not-here', log: silentLog })
  let isClosed = false
  const body = {
    [Symbol.asyncIterator]: () => ({
      next: () => assert.fail('it was read'),
      return: async () => {
        isClosed = true
        return { done: true as const, value: undefined }
      },
    }),
  }
  const taking = pool.ensureImageFrom('a'.repeat(64) as Sha256, body, new AbortController().signal)
  await assert.rejects(
    taking,
    (error) => error instanceof HostFault && error.code === 'storage_inspection_failed',
  )
  assert.ok(isClosed)
})
