import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { restoringOf } from '../../../test/restoring-of.ts'
import { StoreStage } from '../../../test/store-stage.ts'
import { readMaintenanceOf } from './maintenance-kept.ts'
import { writeBackup } from './write-backup.ts'
import type { TestContext } from 'node:test'
import type { Maintenance } from '../../core/maintenance/maintenance.ts'
import type { MaintenanceAfter } from './maintenance-kept.ts'

const NOW = 1_800_000_000_000
const drained: Maintenance = {
  state: 'drained',
  reason: 'a new disk',
  drain: { guests: 'stop', graceSeconds: 0, atOnce: 4 },
  sinceMs: 5,
  emptySinceMs: 6,
}
const schedulable: Maintenance = { state: 'schedulable', sinceMs: 7 }

/** A store, and a backup of it in which the host had this state. */
function stageWith(t: TestContext, maintenance?: Maintenance) {
  const stage = new StoreStage(t)
  const file = `${stage.directory}/b.vmhostd`
  if (maintenance !== undefined) stage.store.maintenance.set(maintenance, 1)
  writeBackup(stage.directory, file, { about: { madeAtMs: 1, version: '1', hostId: 'host-1' }, files: [] })
  const present = `${stage.directory}/vmhostd.db`
  /** Puts the backup back after something has happened; returns what was said before. */
  const putBack = (happens: () => void = () => {}): MaintenanceAfter => {
    let said: MaintenanceAfter | undefined
    stage.reopen(() => {
      happens()
      const restoring = restoringOf(stage, file)
      said = restoring.maintenanceAfter()
      restoring.putBack([], NOW)
    })
    return said ?? assert.fail()
  }
  return { stage, present, putBack }
}

test('a host that was drained at the backup, and is in service now, stays in service', (t) => {
  const { stage, putBack } = stageWith(t, drained)
  stage.store.maintenance.set(schedulable, 2)
  const { revision } = stage.store.maintenance
  assert.deepEqual(putBack(), { from: 'present', maintenance: schedulable })
  assert.deepEqual(stage.store.maintenance.get(), schedulable)
  assert.equal(stage.store.maintenance.revision, revision)
})

test('a host that is drained now stays drained, whatever the backup says', (t) => {
  for (const before of [undefined, schedulable]) {
    const { stage, putBack } = stageWith(t, before)
    stage.store.maintenance.set(drained, 2)
    assert.deepEqual(putBack(), { from: 'present', maintenance: drained })
    assert.deepEqual(stage.store.maintenance.get(), drained)
  }
})

test('a host of which nothing was desired by the present records is in service', (t) => {
  const { stage, present, putBack } = stageWith(t, drained)
  putBack(() => {
    const db = new DatabaseSync(present)
    db.exec("DELETE FROM meta WHERE key LIKE 'maintenance%'")
    db.close()
  })
  assert.deepEqual(stage.store.maintenance.get(), { state: 'schedulable' })
  assert.equal(stage.store.maintenance.revision, 0)
})

test('if the present records do not say, a host that was drained is cordoned, so that no guest ends', (t) => {
  for (const lose of [
    (path: string) => writeFileSync(path, 'not a database'),
    (path: string) => rmSync(path),
    (path: string) => {
      const db = new DatabaseSync(path)
      db.exec("UPDATE meta SET value = '{' WHERE key = 'maintenance'")
      db.close()
    },
  ]) {
    const { stage, present, putBack } = stageWith(t, drained)
    const { revision } = stage.store.maintenance
    const maintenance = { state: 'cordoned', reason: 'a new disk' }
    assert.deepEqual(
      putBack(() => lose(present)),
      { from: 'undrained', maintenance },
    )
    assert.deepEqual(stage.store.maintenance.get(), { ...maintenance, sinceMs: NOW })
    // No ETag has two meanings.
    assert.ok(stage.store.maintenance.revision > revision)
    assert.ok(stage.store.maintenance.revision <= stage.store.events.newest)
  }
})

test('if the present records do not say, a host that was not drained has the state of the backup', (t) => {
  const cordoned: Maintenance = { state: 'cordoned', reason: 'full', sinceMs: 3 }
  const { stage, present, putBack } = stageWith(t, cordoned)
  const said = putBack(() => writeFileSync(present, 'not a database'))
  assert.deepEqual(said, { from: 'file', maintenance: cordoned })
  assert.deepEqual(stage.store.maintenance.get(), cordoned)
})

test('a file that cannot be opened does not say', (t) => {
  const { directory } = new StoreStage(t)
  assert.equal(readMaintenanceOf(directory), undefined)
})
