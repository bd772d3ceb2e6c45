import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { StoreStage } from '../../../test/store-stage.ts'
import { Restoring } from './restoring.ts'
import { writeBackup } from './write-backup.ts'

test('a restore removes the copy that a killed one left unfinished, because its name is not used again', (t) => {
  const stage = new StoreStage(t)
  const { directory } = stage
  const file = `${directory}/b.vmhostd`
  writeBackup(directory, file, { about: { madeAtMs: 1, version: '1.2.3', hostId: 'host-1' }, files: [] })
  const copies = `${directory}/copies`
  let left: readonly string[] = []
  stage.reopen(() => {
    mkdirSync(copies)
    writeFileSync(`${copies}/before-restore-20261129T171147Z.db.new`, 'half')
    const at = { stateDirectory: directory, directory: `${directory}/restore.new` }
    new Restoring(file, at, { first: 600_000, count: 100 }).putBack([], Date.UTC(2027, 0, 15))
    left = readdirSync(copies)
  })
  assert.deepEqual(left, ['before-restore-20270115T000000Z.db'])
})
