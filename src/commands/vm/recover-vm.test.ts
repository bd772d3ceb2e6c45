import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandStage, createRequest } from '../../../test/command-stage.ts'
import { createVm, desiredOf, inputsOf } from './create-vm.ts'
import { recoverVm } from './recover-vm.ts'
import type { TestContext } from 'node:test'
import type { Image } from '../../core/desired.ts'
import type { OperationId, Sha256, UserId, VmId } from '../../core/ids.ts'
import type { Orphan } from '../../core/recovery/judge-orphan.ts'
import type { CreateVm } from '../../core/vm/create.ts'

const lost = 'lost-1' as VmId
const userId = 600_004 as UserId
const other = 'c'.repeat(64) as Sha256
const terms = { nowMs: 9000, operationId: 'op-9' as OperationId }

function stage(t: TestContext) {
  const on = commandStage(t)
  const recover = (
    orphan: Partial<Orphan> = {},
    changes: Partial<CreateVm> = {},
    image: Partial<Image> = {},
  ) => {
    const request = createRequest({ network: { ipv4Address: '192.0.2.77' }, ...changes })
    const desired = desiredOf({ nameServers: [] }, request, 0 as UserId)
    const source = {
      desired: { ...desired, image: { ...desired.image, ...image } },
      macIsChosen: request.network?.macAddress !== undefined,
      metadata: request.metadata,
      monitor: 'qemu' as const,
      inputs: inputsOf(request),
    }
    return recoverVm(on.store, lost, { source, orphan: { diskMib: 64, ...orphan }, terms })
  }
  return { ...on, recover }
}

test('what the host shows of a VM overrules what the file says', (t) => {
  const { recover } = stage(t)
  const found = { createdAtMs: 1234, userId, diskMib: 128, rootfsSha256: other, rebuild: 3 }
  const recovered = recover({ ...found, guest: 'sleeps' })
  assert.ok(recovered.ok)
  const { desired, createdAtMs, host, mayBeSaved, observed } = recovered.value
  assert.deepEqual([createdAtMs, host.userId, host.device, mayBeSaved], [1234, userId, `vmt${userId}`, true])
  assert.deepEqual([desired.power, desired.disk.sizeMib], ['running', 128])
  assert.deepEqual([desired.image.rootfsSha256, desired.image.rebuild], [other, 3])
  assert.equal(desired.network?.macAddress, '02:76:00:09:27:c4')
  // A disk that goes missing later is not made again from its image.
  assert.deepEqual([observed.disk?.sizeMib, observed.rebuild], [128, 3])
})

test('a VM without a guest is recovered as stopped, whatever the file says', (t) => {
  const { recover } = stage(t)
  const recovered = recover({}, { power: 'running' })
  assert.ok(recovered.ok)
  assert.deepEqual([recovered.value.desired.power, recovered.value.createdAtMs], ['stopped', 9000])
})

test('a disk that is smaller than the file says is to grow to that size', (t) => {
  const recovered = stage(t).recover({ diskMib: 32 })
  assert.ok(recovered.ok)
  const { desired, observed } = recovered.value
  assert.deepEqual([desired.disk.sizeMib, observed.disk?.sizeMib], [64, 32])
})

test('a disk that does not show its rebuild counts as one that was not rebuilt, whatever the file says', (t) => {
  const recovered = stage(t).recover({}, {}, { rebuild: 3 })
  assert.ok(recovered.ok)
  assert.equal(recovered.value.desired.image.rebuild, undefined)
})

test('a VM without a guest keeps the user that its disk shows', (t) => {
  const recovered = stage(t).recover({ userId })
  assert.ok(recovered.ok)
  assert.equal(recovered.value.host.userId, userId)
})

test('the same request is a repeat for a VM that was recovered from it', (t) => {
  const { recover, context } = stage(t)
  assert.ok(recover().ok)
  const again = createVm(context, lost, createRequest({ network: { ipv4Address: '192.0.2.77' } }))
  assert.ok(again.ok && !again.value.changed)
})

test('a user or an address of another VM is refused, and so is a VM that has a record', (t) => {
  const { recover, context, id, store } = stage(t)
  createVm(context, id, createRequest())
  const taken = store.vms.get(id)?.host.userId ?? assert.fail()
  assert.equal(recover({}, { network: { ipv4Address: '192.0.2.10' } }).ok, false)
  assert.equal(recover({ userId: taken, guest: 'runs' }).ok, false)
  const free = recover({ userId: taken })
  assert.ok(free.ok && free.value.host.userId !== taken)
  assert.equal(recover().ok, false)
})

test('a guest whose user is not known is not recovered', (t) => {
  assert.equal(stage(t).recover({ guest: 'runs' }).ok, false)
})
