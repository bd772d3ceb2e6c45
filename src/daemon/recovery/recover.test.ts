import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recoverVm } from '../../commands/vm/recover-vm.ts'
import { desiredOf, inputsOf } from '../../commands/vm/create-vm.ts'
import { commandStage, createRequest } from '../../../test/command-stage.ts'
import { reconcileStage } from '../../../test/reconcile-stage.ts'
import { draftRequest, giveRecord, userIdsWithoutRecord } from './recover.ts'
import { recoveredInWords } from './words.ts'
import { sourceFromStore } from './recovery-source.ts'
import type { OperationId, UserId, VmId } from '../../core/ids.ts'
import type { RecoverySource } from '../../commands/vm/recover-vm.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { Orphan } from '../../core/recovery/judge-orphan.ts'

const id = 'lost-1' as VmId
const request = createRequest()
const source = {
  desired: desiredOf({ nameServers: [] }, request, 0 as UserId),
  macIsChosen: false,
  metadata: request.metadata,
  monitor: 'qemu' as const,
  inputs: inputsOf(request),
}
const record = { source, nowMs: 9000, operationId: 'op-9' as OperationId }
const joining = { kind: 'adopt', storeId: 'lost' } as const

test('a store takes the id of a lost one with the first record, and not with a refusal', (t) => {
  const { store } = commandStage(t)
  const { storeId } = store
  const refused: Orphan = { diskMib: 64, storeId: 'lost', guest: 'runs' }
  assert.equal(giveRecord(store, { id, orphan: refused, joining }, record).ok, false)
  assert.deepEqual([store.storeId, store.isEmpty], [storeId, true])
  const orphan: Orphan = { ...refused, createdAtMs: 1234, userId: 600_003 as UserId }
  const given = giveRecord(store, { id, orphan, joining }, record)
  assert.ok(given.ok)
  assert.deepEqual([store.storeId, given.value.createdAtMs, store.vms.ids()], ['lost', 1234, [id]])
})

test('no record is taken from a file that says that the VM has moved', (t) => {
  const { store } = commandStage(t)
  const orphan: Orphan = { diskMib: 64, storeId: 'lost', createdAtMs: 1234, userId: 600_003 as UserId }
  assert.ok(giveRecord(store, { id, orphan, joining }, record).ok)
  assert.equal(sourceFromStore(store, id, orphan).monitor, 'qemu')
  const departure = { id: 'm-1', node: 'host-2', mode: 'warm', stage: 'released', sinceMs: 1 }
  store.departures.set(id, departure as unknown as Departure, 1)
  assert.throws(() => sourceFromStore(store, id, orphan), /has moved to host-2/)
})

test('a VM that is recovered without a guest, and is deleted once it is stopped for long, says so', (t) => {
  const { store } = commandStage(t)
  const orphan: Orphan = { diskMib: 64, storeId: 'lost', createdAtMs: 1234 }
  const exit = { restartPolicy: 'always', deleteAfterSeconds: 3600 } as const
  const found = { id, orphan, joining }
  const words = (more: Partial<RecoverySource>): string => {
    const from = { ...source, desired: { ...source.desired, exit }, ...more }
    const given = store.rehearse(() => recoverVm(store, id, { source: from, orphan, terms: record }))
    assert.ok(given.ok)
    return recoveredInWords(given.value, found, from).join('\n')
  }
  assert.match(words({}), /deleted with its disk 3600 s after it is found stopped/)
  assert.doesNotMatch(words({ metadata: { ...request.metadata, protected: true } }), /deleted with/)
  assert.doesNotMatch(words({ desired: source.desired }), /deleted with/)
})

test('a VM whose disk does not show its user gets none that another disk without a record has', async (t) => {
  const { store, host } = await reconcileStage(t)
  const taken = store.vms.freeUserId() ?? assert.fail()
  host.storage.disks.set('other' as VmId, { sizeMib: 64, userId: taken })
  assert.deepEqual(await userIdsWithoutRecord(store, host), [taken])
  store.reserveUserIds([taken])
  const own = { kind: 'own' } as const
  const made = giveRecord(store, { id, orphan: { diskMib: 64 }, joining: own }, record)
  assert.ok(made.ok)
  assert.equal(made.value.host.userId, taken + 1)
})

test('a draft has null for what the host does not show', () => {
  const draft = draftRequest({ diskMib: 64 }) as Record<'power' | 'disk' | 'compute' | 'image', unknown>
  const unknown = { sha256: null, url: null }
  assert.deepEqual(draft.image, { rootfs: unknown, kernel: unknown, initrd: unknown })
  assert.deepEqual(
    [draft.power, draft.disk, draft.compute],
    ['stopped', { size_mib: 64 }, { cpu_millicores: null, memory_mib: null, sleep_after_idle_seconds: 0 }],
  )
})
