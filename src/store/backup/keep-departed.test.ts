import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import { Restoring } from './restoring.ts'
import { writeBackup } from './write-backup.ts'
import type { OperationId, VmId } from '../../core/ids.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { MigrationId } from '../../core/migration/offer.ts'

const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }
const range = { first: 600_000, count: 100 }
const departure = (id: string, stage: Departure['stage']): Departure =>
  ({ id, node: 'host-2', mode: 'live', stage, sinceMs: 1, arrival: 'a', lastRound: 3 }) as Departure

/** Puts records back that were written now, after something has happened. */
function restored(stage: StoreStage, leftOut: readonly VmId[], happens: () => void): void {
  const file = `${stage.directory}/b.vmhostd`
  writeBackup(stage.directory, file, { about: { madeAtMs: 1, version: '1', hostId: 'host-1' }, files: [] })
  happens()
  stage.reopen(() => {
    const at = { stateDirectory: stage.directory, directory: `${stage.directory}/restore.new` }
    new Restoring(file, at, range).putBack(leftOut, 1_800_000_000_000)
  })
}

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

test('a withdrawal since is not kept for a record that is put back, which has its own word', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', image)
  stage.store.departures.set(id, departure('m-1', 'handed_over'), 5)
  restored(stage, [], () => stage.store.departures.set(id, departure('m-1', 'withdrawn'), 6))
  assert.equal(stageOf(stage, 'm-1'), undefined)
})
