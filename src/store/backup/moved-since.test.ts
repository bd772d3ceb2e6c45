import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { readMovedSince } from './moved-since.ts'
import type { VmId } from '../../core/ids.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { Departure, DepartureStage } from '../../core/migration/departure.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }

function depart(stage: StoreStage, id: VmId, at: DepartureStage): void {
  const departure = { id: `m-${id}`, node: 'host-2', mode: 'warm', stage: at, sinceMs: 1 }
  stage.store.departures.set(id, departure as unknown as Departure, 2)
}

test('only VMs that were released have moved, and the others of the records stayed, also while a daemon has them', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-0', image)
  for (const at of ['offered', 'handed_over', 'released', 'withdrawn'] as const)
    depart(stage, stage.insertVm(at.replace('_', '-'), image), at)
  const { to, stayed, unreadable } = readMovedSince(stage.directory)
  assert.deepEqual([...to], [['released', 'host-2']])
  assert.deepEqual([...stayed], ['handed-over', 'offered', 'web-0', 'withdrawn'])
  assert.equal(unreadable, undefined)
})

test('a VM that is coming is at its source until that has released it', (t) => {
  const stage = new StoreStage(t)
  for (const at of ['pulling', 'released'] as const) {
    const arrival = { id: `a-${at}`, source: 'https://192.0.2.2:9001', stage: at }
    stage.store.arrivals.set(stage.insertVm(at, image), arrival as unknown as Arrival, 2)
  }
  const { to, comingFrom, stayed } = readMovedSince(stage.directory)
  assert.deepEqual([...comingFrom], [['pulling', 'https://192.0.2.2:9001']])
  assert.deepEqual([[...to], [...stayed]], [[], ['released']])
})

test('of a VM whose moves cannot be read nothing is known, and of the others all', (t) => {
  const stage = new StoreStage(t)
  stage.insertVm('web-0', image)
  depart(stage, stage.insertVm('web-1', image), 'released')
  const bad = [stage.insertVm('web-2', image), stage.insertVm('web-3', image)]
  stage.reopen(() => {
    const db = new DatabaseSync(`${stage.directory}/vmhostd.db`)
    db.exec('DROP INDEX vms_by_departure')
    for (const [number, column] of ['departure', 'arrival'].entries())
      db.prepare(`UPDATE vms SET ${column} = '{' WHERE id = ?`).run(bad[number] ?? null)
    db.close()
  })
  const { to, comingFrom, stayed, unreadable } = readMovedSince(stage.directory)
  assert.deepEqual([[...to], [...comingFrom], [...stayed]], [[['web-1', 'host-2']], [], ['web-0']])
  assert.equal(unreadable, undefined)
})

test('nothing is known of records that are not there or cannot be read; those too old for moves have none', (t) => {
  const stage = new StoreStage(t)
  const path = `${stage.directory}/vmhostd.db`
  stage.store.close()
  rmSync(path)
  const none = new Map()
  const missing = readMovedSince(stage.directory)
  assert.deepEqual([missing.to.size, missing.stayed.size], [0, 0])
  assert.equal(missing.unreadable, `${path} is not there`)
  const old = new DatabaseSync(path)
  old.exec("CREATE TABLE vms (id TEXT PRIMARY KEY); INSERT INTO vms VALUES ('web-1')")
  old.close()
  assert.deepEqual(readMovedSince(stage.directory), {
    to: none,
    comingFrom: none,
    stayed: new Set(['web-1']),
  })
  writeFileSync(path, 'not a database')
  const damaged = readMovedSince(stage.directory)
  assert.deepEqual([damaged.to.size, damaged.stayed.size], [0, 0])
  assert.match(damaged.unreadable ?? '', /vmhostd\.db cannot be read: .*not a database/)
  rmSync(path)
  stage.reopen(() => {}, { isClosed: true })
})
