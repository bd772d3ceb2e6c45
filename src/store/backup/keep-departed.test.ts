import assert from 'node:assert/strict'
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { restoringOf } from '../../../test/restoring-of.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { writeBackup } from './write-backup.ts'
import type { OperationId, VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }
const departure = (id: string, stage: Departure['stage']): Departure =>
  ({ id, node: 'host-2', mode: 'live', stage, sinceMs: 1, arrival: 'a', lastRound: 3 }) as Departure

/**
 * Puts records back that were written now, after something has happened,
 * also to the records of a daemon that has ended.
 */
function restored(
  stage: StoreStage,
  leftOut: readonly VmId[],
  happens: () => void,
  ended: (db: DatabaseSync) => void = () => {},
): void {
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about: { madeAtMs: 1, version: '1', hostId: 'host-1' }, files: [] })
  happens()
  stage.reopen(() => {
    const db = new DatabaseSync(`${stage.directory}/vmhostd.db`)
    ended(db)
    db.close()
    putBack(stage, file, leftOut)
  })
}

const putBack = (stage: StoreStage, file: string, leftOut: readonly VmId[]): string | undefined =>
  restoringOf(stage, file).putBack(leftOut, 1_800_000_000_000)

const stageOf = ({ store }: StoreStage, id: string): string | undefined =>
  store.departures.departed(id as MigrationId)?.stage

test('a release that older records do not know is answered all the same', (t) => {
  const stage = new StoreStage(t)
  const [here, gone] = [stage.insertVm('web-1', image), stage.insertVm('web-2', image)]
  restored(stage, [here, gone], () => {
    const { vms, departures } = stage.store
    for (const [id, move] of [
      [here, 'm-1'],
      [gone, 'm-2'],
    ] as const)
      departures.set(id, departure(move, 'released'), 5)
    vms.changeDesired(gone, { deleting: true, operationId: 'op-1' as OperationId, nowMs: 6 })
    vms.forget(gone, 7)
  })
  assert.deepEqual([stageOf(stage, 'm-1'), stageOf(stage, 'm-2')], ['released', 'released'])
})

test('a release that the records have is answered also if its VM is left out of them', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  stage.store.departures.set(id, departure('m-1', 'released'), 5)
  restored(stage, [id], () => {})
  assert.equal(stageOf(stage, 'm-1'), 'released')
})

test('a release that only the older records have is answered, though its VM is left out of them', (t) => {
  const stage = new StoreStage(t)
  const [moved, here] = [stage.insertVm('web-1', image), stage.insertVm('web-2', image)]
  stage.store.departures.set(moved, departure('m-1', 'released'), 5)
  const lose = (db: DatabaseSync): void => db.exec('DELETE FROM vms; DELETE FROM departed')
  restored(stage, [moved], () => {}, lose)
  assert.equal(stageOf(stage, 'm-1'), 'released')
  assert.deepEqual(stage.store.vms.ids(), [here])
})

test('a withdrawal since is not kept for a record that is put back, which has its own word', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  stage.store.departures.set(id, departure('m-1', 'handed_over'), 5)
  restored(stage, [], () => stage.store.departures.set(id, departure('m-1', 'withdrawn'), 6))
  assert.equal(stageOf(stage, 'm-1'), undefined)
})

test('a departure that cannot be read takes no release of another VM with it', (t) => {
  const stage = new StoreStage(t)
  const [here, bad] = [stage.insertVm('web-1', image), stage.insertVm('web-2', image)]
  const release = (): unknown => stage.store.departures.set(here, departure('m-1', 'released'), 5)
  restored(stage, [here, bad], release, (db) => {
    db.exec('DROP INDEX vms_by_departure; DROP INDEX departed_by_id')
    db.prepare("UPDATE vms SET departure = '{' WHERE id = ?").run(bad)
    db.exec("INSERT INTO departed (departure) VALUES ('{')")
  })
  assert.equal(stageOf(stage, 'm-1'), 'released')
})

test('records that are damaged elsewhere still give their releases', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  let [page, bytes] = [0, 0]
  const release = (): unknown => stage.store.departures.set(id, departure('m-1', 'released'), 5)
  const find = (db: DatabaseSync): void => {
    const number = (sql: string): number => Number(Object.values(db.prepare(sql).get() ?? {})[0])
    page = number("SELECT rootpage FROM sqlite_schema WHERE name = 'events'")
    bytes = number('PRAGMA page_size')
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    const file = openSync(`${stage.directory}/vmhostd.db`, 'r+')
    writeSync(file, Buffer.alloc(bytes, 0xff), 0, bytes, (page - 1) * bytes)
    closeSync(file)
  }
  restored(stage, [id], release, find)
  assert.equal(stageOf(stage, 'm-1'), 'released')
})

test('nothing is put back while the present records cannot be copied though they are not damaged', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about: { madeAtMs: 1, version: '1', hostId: 'host-1' }, files: [] })
  stage.store.departures.set(id, departure('m-1', 'released'), 5)
  const index = `${stage.directory}/vmhostd.db-shm`
  stage.reopen(() => {
    // SQLite does not open an index of the log that is a link.
    symlinkSync('nowhere', index)
    assert.throws(
      () => putBack(stage, file, [id]),
      /the present records cannot be copied to .*before-restore.* move .* aside with its -wal and -shm$/,
    )
    assert.deepEqual(readdirSync(`${stage.directory}/copies`), [])
    rmSync(index)
    assert.ok(existsSync(`${stage.directory}/vmhostd.db`))
    putBack(stage, file, [id])
  })
  assert.equal(stageOf(stage, 'm-1'), 'released')
})

test('a VM whose departure cannot be read can be left out', (t) => {
  const stage = new StoreStage(t)
  const [bad, here] = [stage.insertVm('web-1', image), stage.insertVm('web-2', image)]
  stage.store.departures.set(bad, departure('m-1', 'offered'), 5)
  stage.store.departures.set(here, departure('m-2', 'offered'), 5)
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about: { madeAtMs: 1, version: '1', hostId: 'host-1' }, files: [] })
  const bytes = readFileSync(file)
  const at = bytes.indexOf('{"id":"m-1"')
  assert.notEqual(at, -1)
  bytes[at] = 0x21
  writeFileSync(file, bytes)
  stage.reopen(() => putBack(stage, file, [bad]))
  assert.deepEqual(stage.store.vms.ids(), [here])
  assert.equal(stage.store.departures.of('m-2' as MigrationId)?.id, here)
})
