import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
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

/** Files that a monitor may leave in place of the memory. */
const LEFT: Record<string, (path: string) => void> = {
  'a FIFO': (path) => void execFileSync('mkfifo', [path]),
  'a sparse file without end': (path) => {
    writeFileSync(path, 'x')
    truncateSync(path, 2 ** 43)
  },
}

for (const [what, leave] of Object.entries(LEFT)) {
  test(
    `${what} that a monitor left in place of the memory holds no thread`,
    { timeout: 10_000 },
    async (t) => {
      const pool = mkdtempSync(join(tmpdir(), 'vmh-'))
      t.after(() => rmSync(pool, { recursive: true }))
      const paths = poolPaths(pool)
      for (const directory of [paths.save(id), paths.savedUnfinished(id)])
        mkdirSync(directory, { recursive: true })
      leave(join(paths.savedUnfinished(id), MEMORY))
      const preparing = prepareSaved({
        paths,
        id,
        terms,
        doing: 'publishing',
        flushes: new Semaphore(1),
        checked: new CheckedMemory(() => 0),
        flushed: Promise.resolve(),
        signal: t.signal,
      })
      await assert.rejects(preparing, isFault('save_failed'))
    },
  )
}
