import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { Store } from '../store.ts'
import type { MacAddress, OperationId, Sha256, UserId, VmId } from '../../core/ids.ts'

const web = 'web-1' as VmId
const other = 'web-2' as VmId
const first = `SHA256:${'a'.repeat(43)}`
const second = `SHA256:${'b'.repeat(43)}`
const range = { first: 600_000, count: 3 }

let directory: string
let store: Store

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'vmhostd-store-'))
  store = new Store(directory, range)
  insert(web)
})

afterEach(() => {
  store.close()
  rmSync(directory, { recursive: true })
})

function insert(id: VmId): void {
  store.vms.insert({
    id,
    userId: store.vms.freeUserId() as UserId,
    monitor: 'qemu',
    desired: {
      power: 'running',
      compute: { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 },
      disk: { sizeMib: 64 },
      image: { rootfsSha256: 'a'.repeat(64) as Sha256, kernelSha256: 'b'.repeat(64) as Sha256 },
      network: { macAddress: '02:00:00:00:00:01' as MacAddress },
    },
    metadata: { labels: {}, protected: false },
    inputs: { request: '{}', sources: new Map(), sshAuthorizedKeys: [] },
    operationId: 'op-1' as OperationId,
    nowMs: 1000,
  })
}

const remove = (id: VmId): void => {
  store.vms.changeDesired(id, { deleting: true, operationId: 'op-2' as OperationId, nowMs: 2000 })
  store.vms.forget(id, 0)
}

const reopen = (): void => {
  store.close()
  store = new Store(directory, range)
}

test('a pinned host key is there for the next process, and another VM does not have it', () => {
  insert(other)
  assert.equal(store.sshHostKeys.get(web), undefined)
  store.sshHostKeys.pin(web, first, 1000)
  reopen()
  assert.equal(store.sshHostKeys.get(web), first)
  assert.equal(store.sshHostKeys.get(other), undefined)
})

test('pinning again replaces', () => {
  store.sshHostKeys.pin(web, first, 1000)
  store.sshHostKeys.pin(web, second, 2000)
  assert.equal(store.sshHostKeys.get(web), second)
})

test('a VM that is created again with the same id has no host key', () => {
  store.sshHostKeys.pin(web, first, 1000)
  remove(web)
  assert.equal(store.sshHostKeys.get(web), undefined)
  insert(web)
  assert.equal(store.sshHostKeys.get(web), undefined)
})

test('a VM that is not on record cannot have one', () => {
  remove(web)
  assert.throws(() => store.sshHostKeys.pin(web, first, 1000), /FOREIGN KEY/)
  assert.equal(store.sshHostKeys.get(web), undefined)
})

test('a pin is not a change of the VM: its revision stays', () => {
  const before = store.vms.get(web)
  store.sshHostKeys.pin(web, first, 1000)
  assert.deepEqual(store.vms.get(web), before)
})
