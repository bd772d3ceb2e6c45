import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import type { OperationId, VmId } from '../../core/ids.ts'
import type { ArrivalId, Departure, DepartureStage } from '../../core/migration/departure.ts'
import type { MigrationId, NodeName } from '../../core/migration/offer.ts'

const departure = (stage: DepartureStage, id = 'move-7'): Departure => ({
  id: id as MigrationId,
  node: 'node-2' as NodeName,
  mode: 'live',
  stage,
  sinceMs: 1,
  arrival: 'a' as ArrivalId,
  lastRound: 3,
})

/** Creates a VM that leaves, and deletes it. */
function leaves(stage: StoreStage, how: Departure): VmId {
  const { store } = stage
  const vm = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  store.departures.set(vm, how, 1)
  store.vms.changeDesired(vm, { deleting: true, operationId: 'op-2' as OperationId, nowMs: 2 })
  store.vms.forget(vm, 3)
  return vm
}

test('a departure is found after the deletion of its VM if a destination may have the guest, also by the next daemon', (t) => {
  const stage = new StoreStage(t)
  const { lastRound: _none, ...early } = departure('withdrawn', 'move-9')
  leaves(stage, departure('released'))
  leaves(stage, departure('withdrawn', 'move-8'))
  leaves(stage, early)
  stage.reopen()
  assert.deepEqual(stage.store.departures.departed('move-7' as MigrationId), departure('released'))
  assert.deepEqual(stage.store.departures.departed('move-8' as MigrationId), departure('withdrawn', 'move-8'))
  assert.equal(stage.store.departures.departed('move-9' as MigrationId), undefined)
  assert.equal(stage.store.departures.of('move-7' as MigrationId), undefined)
})

test('a departure is found after another offer of its VM, if a destination may have the guest', (t) => {
  const stage = new StoreStage(t)
  const { store } = stage
  const vm = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  store.departures.set(vm, departure('withdrawn'), 1)
  const desired = store.vms.get(vm)?.desired ?? assert.fail('the VM is gone')
  const migration = {
    id: 'move-8' as MigrationId,
    node: 'node-2' as NodeName,
    mode: 'live',
    expiresAtMs: 9,
  } as const
  store.vms.changeDesired(vm, {
    desired: { ...desired, migration },
    departure: departure('offered', 'move-8'),
    operationId: 'op-2' as OperationId,
    nowMs: 2,
  })
  assert.deepEqual(store.departures.departed('move-7' as MigrationId), departure('withdrawn'))
})

test('only the newest departures of deleted VMs are kept', (t) => {
  const stage = new StoreStage(t)
  for (let number = 0; number <= limits.departedMax; number += 1)
    leaves(stage, departure('released', `move-${number}`))
  const kept = (number: number): boolean =>
    stage.store.departures.departed(`move-${number}` as MigrationId) !== undefined
  assert.deepEqual([kept(0), kept(1), kept(limits.departedMax)], [false, true, true])
})

test('each stage of a departure is an event, and the same stage again is none', (t) => {
  const stage = new StoreStage(t)
  const { departures, events } = stage.store
  const vm = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  for (const how of ['offered', 'copying', 'copying', 'handing_over'] as const)
    departures.set(vm, departure(how), 1)
  const moves = events.list({ after: 0, limit: 9, kind: 'vm_migration' })
  assert.deepEqual(
    moves.map(({ body }) => 'to' in body && body.to),
    ['offered', 'copying', 'handing_over'],
  )
})
