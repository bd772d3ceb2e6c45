import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreStage, sha256Of } from '../../../test/store-stage.ts'
import type { TestContext } from 'node:test'
import type { MacAddress, OperationId } from '../../core/ids.ts'

/** Returns the loans of a store with two VMs. */
function stage(t: TestContext) {
  const on = new StoreStage(t)
  const image = { rootfsSha256: sha256Of('a'), kernelSha256: sha256Of('b') }
  const [a, b] = [on.insertVm('web-a', image), on.insertVm('web-b', image)]
  return { on, a, b, loans: on.store.memoryLoans }
}

test('a VM that asks again for its memory keeps its place in the queue', (t) => {
  const { a, b, loans } = stage(t)
  for (const id of [a, b]) loans.lend(id)
  for (const [nowMs, id] of [a, b, a].entries()) loans.want(id, nowMs)
  assert.deepEqual(loans.queue(), [a, b])
})

test('VMs wait in the order in which they asked, also when the clock was set back between', (t) => {
  const { a, b, loans } = stage(t)
  for (const id of [a, b]) loans.lend(id)
  loans.want(b, 2000)
  loans.want(a, 1000)
  assert.deepEqual(loans.queue(), [b, a])
})

test('a VM that has its memory does not wait for it', (t) => {
  const { a, loans } = stage(t)
  loans.want(a, 1000)
  assert.deepEqual(loans.queue(), [])
})

test('a stopped VM lends its memory before one that runs, however long that is idle', (t) => {
  const { on, a, b, loans } = stage(t)
  const { vms } = on.store
  const { desired } = vms.get(a) ?? assert.fail()
  const compute = { ...desired.compute, sleepAfterIdleSeconds: 60 }
  const network = { macAddress: '02:00:00:00:00:01' as MacAddress, ipv4Address: '192.0.2.10' }
  const sleeps = { ...desired, compute, network }
  vms.changeDesired(a, { desired: sleeps, operationId: 'op-2' as OperationId, nowMs: 1000 })
  vms.recordProgress(a, { observed: { state: 'running', sinceMs: 1000 }, nowMs: 1000 })
  vms.recordProgress(b, { observed: { state: 'stopped', sinceMs: 900_000 }, nowMs: 900_000 })
  assert.deepEqual(loans.idlest(9, 1_000_000), [b, a])
})
