import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { StoreStage, packed, sha256Of, urlOf } from '../../../test/store-stage.ts'
import { ageStore } from '../../../test/age-store.ts'
import { SCHEMA_VERSION } from './migrations.ts'
import type { SnapshotId } from '../../core/snapshots/record.ts'
import type { MacAddress, OperationId } from '../../core/ids.ts'
import type { Network } from '../../core/desired.ts'

for (let version = 1; version < SCHEMA_VERSION; version += 1) {
  test(`a store of version ${version} is lifted with all its VMs, and has all that later ones have`, (t) => {
    const stage = new StoreStage(t)
    const vm = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
    const before = stage.store.vms.get(vm)
    const seen = stage.store.images.uses().get(sha256Of('a'))
    stage.reopen(() => ageStore(stage.directory, version))
    assert.deepEqual(stage.store.vms.get(vm), before)
    stage.store.sshHostKeys.pin(vm, 'SHA256:a', 1000)
    const snapshot = stage.insertSnapshot('s-1')
    stage.reopen()
    assert.equal(stage.store.sshHostKeys.get(vm), 'SHA256:a')
    assert.equal(stage.store.snapshots.get(snapshot)?.vmId, vm)
    // For a VM older than the table of uses, only the fact that it uses an image is known.
    assert.deepEqual(stage.store.images.uses().get(sha256Of('a')), version < 4 ? { count: 1 } : seen)
  })
}

test('of snapshots that are older than kept staging, only parts that were not sent are staged', (t) => {
  const stage = new StoreStage(t)
  const insert = (id: string): SnapshotId => {
    const snapshot = stage.insertSnapshot(id)
    for (const number of [1, 2, 3]) stage.store.snapshots.addPart(snapshot, ...packed(number), 1000)
    return snapshot
  }
  const [none, some, all, failed] = ['none', 'some', 'all', 'failed'].map(insert) as [
    SnapshotId,
    ...SnapshotId[],
  ]
  stage.store.snapshots.setEtag(some as SnapshotId, 2, { etag: 'e', url: urlOf('sent') }, 2000)
  for (const number of [1, 2, 3])
    stage.store.snapshots.setEtag(all as SnapshotId, number, { etag: 'e', url: urlOf('sent') }, 2000)
  stage.store.snapshots.advance(all as SnapshotId, { stage: 'completed', nowMs: 3000 })
  stage.store.snapshots.advance(failed as SnapshotId, { stage: 'failed', nowMs: 3000 })
  stage.reopen(() => ageStore(stage.directory, 7))
  const staged = [none, some, all, failed].map((id) => {
    const { bytes, isWhole } = stage.store.snapshots.get(id as SnapshotId)?.staged ?? assert.fail()
    return [bytes / packed(1)[0].bytes, isWhole]
  })
  assert.deepEqual(staged, [
    [3, true],
    [2, false],
    [0, false],
    [0, false],
  ])
})

test('a VM that is to be stopped owes that stop after its store was lifted, until a look finds it carried out', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  const { desired } = stage.store.vms.get(id) ?? {}
  assert.ok(desired !== undefined)
  const stopped = { ...desired, power: 'stopped' } as const
  stage.store.vms.changeDesired(id, { desired: stopped, operationId: 'op-2' as OperationId, nowMs: 2 })
  stage.reopen(() => ageStore(stage.directory, 4))
  assert.deepEqual(stage.store.vms.get(id)?.stops, { accepted: 2, carriedOut: 0 })
})

test('a VM without an address that was counted as one that sleeps holds a console place, and no room for its memory', (t) => {
  const stage = new StoreStage(t)
  const macAddress = '02:76:00:09:27:c0' as MacAddress
  const networks: readonly Network[] = [{ macAddress }, { macAddress, ipv6Address: '2001:db8::10' }]
  for (const [number, network] of networks.entries()) {
    const id = stage.insertVm(`web-${number}`, { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
    const { desired } = stage.store.vms.get(id) ?? assert.fail()
    const compute = { ...desired.compute, sleepAfterIdleSeconds: 60 }
    const change = { desired: { ...desired, compute, network }, operationId: 'op-2' as OperationId, nowMs: 2 }
    stage.store.vms.changeDesired(id, change)
  }
  const right = stage.store.vms.recorded()
  assert.deepEqual([right.consolePlaces, right.classes[0]?.sleepers], [1, 1])
  stage.reopen(() => {
    ageStore(stage.directory, 20)
    const db = new DatabaseSync(`${stage.directory}/vmhostd.db`)
    db.exec('UPDATE vms SET can_sleep = 1, holds_place = 0')
    db.close()
  })
  assert.deepEqual(stage.store.vms.recorded(), right)
})

test('compute of a VM that an older build has resized loses the disk that was stored in it', (t) => {
  const stage = new StoreStage(t)
  const id = stage.insertVm('web-1', { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') })
  const right = stage.store.vms.get(id)
  stage.reopen(() => {
    ageStore(stage.directory, 22)
    const db = new DatabaseSync(`${stage.directory}/vmhostd.db`)
    db.exec(`UPDATE vms SET desired = json_set(desired, '$.compute.disk', json('{"size_mib":160}'))`)
    db.close()
  })
  assert.deepEqual(stage.store.vms.get(id), right)
})
