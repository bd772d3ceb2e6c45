/** Records whose files are removed or replaced while they are open. */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sha256Of, StoreStage } from '../../../test/store-stage.ts'
import { openRecordsIn } from './schema-copies.ts'
import { StateUnwritable } from './transactions.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }

const LOST: readonly (readonly [what: string, name: string, lose: (path: string) => void])[] = [
  ['removed', 'vmhostd.db', (path) => rmSync(path)],
  ['moved', 'vmhostd.db', (path) => renameSync(path, `${path}.away`)],
  [
    'replaced',
    'vmhostd.db',
    (path) => {
      copyFileSync(path, `${path}.new`)
      renameSync(`${path}.new`, path)
    },
  ],
  ['removed', 'vmhostd.db-wal', (path) => rmSync(path)],
  ['removed', 'vmhostd.db-shm', (path) => rmSync(path)],
]

for (const [what, name, lose] of LOST)
  test(`${name} is ${what}: nothing more is promised, and the records can still be read and copied`, (t) => {
    const on = new StoreStage(t)
    const { store, directory } = on
    const id = on.insertVm('web-1', image)
    assert.equal(store.lookAtFiles(), undefined)
    lose(join(directory, name))
    // Before the next look, this is stored where nothing but this process has it.
    on.insertVm('web-2', image)
    assert.match(String(store.lookAtFiles()?.cause), new RegExp(`: ${name} was removed or replaced`))
    assert.throws(() => on.insertVm('web-3', image), StateUnwritable)
    assert.equal(store.vms.get(id)?.id, id)
    const path = store.keepOpenRecords(Date.UTC(2030, 0, 2, 3, 4, 5))
    assert.equal(path, join(directory, 'copies/still-open-20300102T030405Z.db'))
    assert.deepEqual(openRecordsIn(directory), [path])
    assert.equal(statSync(path).mode & 0o777, 0o600)
    store.close()
    on.reopen(
      () => {
        for (const file of readdirSync(directory).filter((one) => one.startsWith('vmhostd.db')))
          rmSync(join(directory, file))
        copyFileSync(path, join(directory, 'vmhostd.db'))
      },
      { isClosed: true },
    )
    assert.deepEqual(on.store.vms.ids(), ['web-1', 'web-2'])
  })

test('a file that is back at its place ends that, and all that was written is there', (t) => {
  const on = new StoreStage(t)
  const path = join(on.directory, 'vmhostd.db')
  renameSync(path, `${path}.away`)
  on.insertVm('web-1', image)
  assert.notEqual(on.store.lookAtFiles(), undefined)
  const copy = on.store.keepOpenRecords(0)
  renameSync(`${path}.away`, path)
  assert.equal(on.store.lookAtFiles(), undefined)
  on.store.removeOpenRecords(copy)
  assert.ok(!existsSync(copy))
  on.insertVm('web-2', image)
  on.crash()
  assert.deepEqual(on.store.vms.ids(), ['web-1', 'web-2'])
})

test('a store that is closed misses none of its files', (t) => {
  const on = new StoreStage(t)
  const { store } = on
  on.reopen(() => {
    assert.ok(!existsSync(join(on.directory, 'vmhostd.db-wal')))
    assert.equal(store.lookAtFiles(), undefined)
  })
})
