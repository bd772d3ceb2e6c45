import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { range } from '../../../test/store-stage.ts'
import { Store } from '../store.ts'
import { backupTarget } from './backup-target.ts'
import { writeBackup } from './write-backup.ts'
import type { TestContext } from 'node:test'

/** A state directory with records, and another directory for backups. */
function staged(t: TestContext) {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'backup-target-')))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  for (const name of ['state', 'far']) mkdirSync(at(name))
  new Store(at('state'), range).close()
  const target = (file: string, replace = true, kept: readonly string[] = []): string =>
    backupTarget(file, { stateDirectory: at('state'), files: kept.map((path) => ({ path })), replace })
  return { at, target }
}

test('a regular file is replaced on request, and nothing else is', (t) => {
  const { at, target } = staged(t)
  assert.equal(target(at('far/b'), false), at('far/b'))
  writeFileSync(at('far/b'), 'an earlier backup')
  assert.equal(target(at('far/b')), at('far/b'))
  assert.throws(() => target(at('far/b'), false), /far\/b is there already: --replace replaces it$/)
  assert.throws(() => target(at('far')), /far is a directory: name a file in it$/)
  for (const replace of [true, false])
    assert.throws(() => target('/dev/full', replace), /\/dev\/full is not a regular file: name another one$/)
})

test('a link leads to its target, which may not be there yet', (t) => {
  const { at, target } = staged(t)
  symlinkSync('far/link', at('latest'))
  symlinkSync(at('far/b'), at('far/link'))
  assert.equal(target(at('latest'), false), at('far/b'))
  writeFileSync(at('far/b'), 'an earlier backup')
  assert.equal(target(at('latest')), at('far/b'))
  assert.throws(() => target(at('latest'), false), /far\/b is there already/)
  rmSync(at('far'), { recursive: true })
  assert.throws(() => target(at('latest')), /far is not there: mount it, or make it$/)
  symlinkSync('ring', at('ring'))
  assert.throws(() => target(at('ring')), /ring leads through too many links/)
})

test('no file of the records is a target, also through a link', (t) => {
  const { at, target } = staged(t)
  symlinkSync(at('state'), at('alias'))
  for (const name of ['vmhostd.db', 'vmhostd.db-wal', 'vmhostd.db-shm', 'lock.db'])
    for (const replace of [true, false])
      assert.throws(
        () => target(at(`alias/${name}`), replace),
        /state\/\S+ belongs to the records of this host: name another file$/,
      )
  assert.equal(target(at('far/vmhostd.db')), at('far/vmhostd.db'))
})

test('in the state directory only an earlier backup is replaced', (t) => {
  const { at, target } = staged(t)
  mkdirSync(at('state/copies'))
  for (const name of ['state/id_ed25519', 'state/copies/schema-3.db']) {
    writeFileSync(at(name), 'not a backup')
    assert.throws(() => target(at(name)), /is a file of this host, and not a backup: name another file$/)
  }
  const about = { madeAtMs: 1, version: '1.2.3', hostId: 'host-1' }
  writeBackup(at('state'), target(at('state/b'), false), { about, files: [] })
  assert.equal(target(at('state/b')), at('state/b'))
})

test('a file that the backup holds is not replaced by it', (t) => {
  const { at, target } = staged(t)
  writeFileSync(at('far/config.toml'), '')
  symlinkSync(at('far/config.toml'), at('config.toml'))
  assert.throws(
    () => target(at('config.toml'), true, [at('config.toml'), at('gone')]),
    /far\/config\.toml is a file of this host/,
  )
})
