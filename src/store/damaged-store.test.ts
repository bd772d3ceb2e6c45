import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { DatabaseSync } from 'node:sqlite'
import { Store } from './store.ts'
import type { TestContext } from 'node:test'

const range = { first: 600_000, count: 3 }

function directoryFor(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-store-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return directory
}

test('a damaged store is refused, and the error names the file and what to do', (t) => {
  const directory = directoryFor(t)
  writeFileSync(`${directory}/vmhostd.db`, 'not a database'.repeat(999))
  const message = new RegExp(`^${directory}/vmhostd.db is damaged: .*vmhostd restore.*vmhostd recover`)
  assert.throws(() => new Store(directory, range), { message })
})

test('a store with a damaged page is refused in the same words, and is released', (t) => {
  const directory = directoryFor(t)
  const path = `${directory}/vmhostd.db`
  const made = new Store(directory, range)
  made.close()
  const whole = readFileSync(path)
  const bytes = Buffer.from(whole)
  const db = new DatabaseSync(path)
  const pageOf = (name: string): number =>
    Number(db.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(name)?.['rootpage'])
  const pageBytes = Number(db.prepare('PRAGMA page_size').get()?.['page_size'])
  bytes.fill(0xff, (pageOf('meta') - 1) * pageBytes, pageOf('meta') * pageBytes)
  db.close()
  writeFileSync(path, bytes)
  for (const _again of [1, 2])
    assert.throws(() => new Store(directory, range), {
      message: /vmhostd\.db is damaged: .*vmhostd restore/,
    })
  writeFileSync(path, whole)
  const again = new Store(directory, range)
  assert.equal(again.storeId, made.storeId)
  again.close()
})
