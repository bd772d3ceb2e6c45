/** The command as a process of its own, on a host with records. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { lstatSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readBackup } from '../../store/backup/read-backup.ts'
import { Store } from '../../store/store.ts'
import type { TestContext } from 'node:test'

const MAIN = new URL('../../main.ts', import.meta.url).pathname

function stage(t: TestContext) {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'backup-command-')))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  writeFileSync(at('config.toml'), `state_directory = "${at('state')}"\n`)
  for (const name of ['state', 'far']) mkdirSync(at(name))
  const open = (): Store => new Store(at('state'), { first: 600_000, count: 100 })
  open().close()
  const backup = (...args: readonly string[]) =>
    spawnSync(process.execPath, ['--no-warnings', MAIN, 'backup', ...args, '--config', at('config.toml')], {
      encoding: 'utf8',
    })
  return { at, open, backup }
}

test('the records are never replaced by their backup', (t) => {
  const { at, open, backup } = stage(t)
  const { status, stderr } = backup(at('state/vmhostd.db'), '--replace')
  assert.equal(status, 1)
  assert.match(
    stderr,
    /^vmhostd backup: \S+state\/vmhostd\.db belongs to the records of this host: name another file\n$/,
  )
  open().close()
})

test('a backup goes where a link points to, and the link stays', (t) => {
  const { at, backup } = stage(t)
  symlinkSync('far/b', at('latest'))
  const made = backup(at('latest'))
  assert.deepEqual([made.status, made.stderr], [0, ''])
  assert.match(made.stdout, /far\/b: the records, and 1 files of this host\n/)
  const again = backup(at('latest'))
  assert.deepEqual(
    [again.status, again.stderr],
    [1, `vmhostd backup: ${at('far/b')} is there already: --replace replaces it\n`],
  )
  assert.equal(backup(at('latest'), '--replace').status, 0)
  assert.ok(lstatSync(at('latest')).isSymbolicLink())
  assert.ok(lstatSync(at('far/b')).isFile())
  assert.equal(readBackup(at('far/b')).files.length, 1)
})

test('damaged records are called damaged, and not their target', (t) => {
  const { at, backup } = stage(t)
  writeFileSync(at('state/vmhostd.db'), 'x'.repeat(5000))
  const { status, stderr } = backup(at('far/b'))
  assert.equal(status, 1)
  assert.match(stderr, /^vmhostd backup: \S+state\/vmhostd\.db is damaged: put a backup back/)
})

test('records that were removed under a daemon are not called none, and their copy is named', (t) => {
  const { at, open, backup } = stage(t)
  const store = open()
  rmSync(at('state/vmhostd.db'))
  const errorOf = (): string => backup(at('far/b')).stderr
  assert.match(errorOf(), /is not there: this host has no records yet, or they were removed\n$/)
  const copy = store.keepOpenRecords(0)
  store.close()
  assert.match(errorOf(), new RegExp(`a daemon, which kept its records in ${copy}; vmhostd doctor says`))
})
