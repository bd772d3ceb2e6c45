import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isFault, terms } from '../../../test/contract/saved-states.contract.ts'
import type { VmId } from '../../core/ids.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import { CheckedMemory } from './checked-memory.ts'
import { MEMORY, poolPaths } from '../pool/pool-paths.ts'
import { prepareSaved } from './prepare-saved.ts'

const id = 'web-1' as VmId

test('a FIFO that a monitor put in place of the memory holds no thread', { timeout: 10_000 }, async (t) => {
  const pool = mkdtempSync(join(tmpdir(), 'vmh-'))
  t.after(() => rmSync(pool, { recursive: true }))
  const paths = poolPaths(pool)
  for (const directory of [paths.save(id), paths.savedUnfinished(id)])
    mkdirSync(directory, { recursive: true })
  const fifo = join(paths.savedUnfinished(id), MEMORY)
  execFileSync('mkfifo', [fifo])
  const preparing = prepareSaved({
    paths,
    id,
    terms,
    doing: 'publishing',
    flushes: new Semaphore(1),
    checked: new CheckedMemory(() => 0),
    signal: new AbortController().signal,
  })
  await assert.rejects(preparing, isFault('save_failed'))
})
