import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { readMoved } from './moved-since.ts'
import type { VmId } from '../../core/ids.ts'
import type { Departure, DepartureStage } from '../../core/migration/departure.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }

function depart(stage: StoreStage, id: VmId, at: DepartureStage): void {
  const departure = { id: `m-${id}`, node: 'host-2', mode: 'warm', stage: at, sinceMs: 1 }
  stage.store.departures.set(id, departure as unknown as Departure, 2)
}

test('only VMs that were released have moved, also while a daemon has the records', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-0', image)
  for (const at of ['offered', 'handed_over', 'released', 'withdrawn'] as const)
    depart(stage, stage.insertVm(at.replace('_', '-'), image), at)
  assert.deepEqual([...(readMoved(stage.directory) ?? [])], [['released', 'host-2']])
})

test('records that are not there, or too old for moves, have none; others may', (t) => {
  const stage = new StoreStage(t)
  const path = `${stage.directory}/vmhostd.db`
  stage.store.close()
  rmSync(path)
  assert.equal(readMoved(stage.directory)?.size, 0)
  const old = new DatabaseSync(path)
  old.exec('CREATE TABLE vms (id TEXT PRIMARY KEY)')
  old.close()
  assert.equal(readMoved(stage.directory)?.size, 0)
  writeFileSync(path, 'not a database')
  assert.equal(readMoved(stage.directory), undefined)
  rmSync(path)
  stage.reopen(() => {}, { isClosed: true })
})
