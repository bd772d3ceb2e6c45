import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { discardSaved } from './discard-saved.ts'
import { MEMORY } from './pool-paths.ts'

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
