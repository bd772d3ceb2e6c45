import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { Store } from '../../src/store/store.ts'
import { randomFrom } from '../sim/random.ts'
import { createBody, makePki, startControllerHost } from './support/controller-host.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/vm/ids.ts'
import type { Call, ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const NAMES = 40
const REQUESTS = 1000
const TOTAL = { memoryMib: 10_000, diskMib: 40_000 }

/** What the host is asked, at random: three in ten create, four resize, the rest delete. */
function requestsFrom(random: () => number): Call[] {
  const upTo = (most: number): number => 1 + Math.floor(random() * most)
  return Array.from({ length: REQUESTS }, () => {
    const path = `/v1/vms/vm-${upTo(NAMES)}`
    const compute = { cpu_millicores: 100, memory_mib: 63 + upTo(1500), sleep_after_idle_seconds: 0 }
    const kind = random()
    if (kind < 0.3) {
      const disk = { size_mib: upTo(6000) }
      return {
        method: 'PUT',
        path,
        body: createBody({ power: 'stopped', compute, disk, network: undefined }),
      }
    }
    if (kind < 0.7)
      return { method: 'PUT', path: `${path}/resize`, body: { ...compute, disk_mib: upTo(9000) } }
    return { method: 'DELETE', path }
  })
}

/** A host on which every VM stops and goes as soon as that is asked. */
function obey(host: ControllerHost): void {
  host.store.onVmChange((id: VmId) => {
    const record = host.store.vms.get(id)
    if (record === undefined) return
    if (record.deleting) host.store.vms.forget(id, 0)
    else if (record.observed.state !== 'stopped') {
      host.store.vms.recordProgress(id, { observed: { state: 'stopped', sinceMs: 1 }, nowMs: 1 })
    }
  })
}

/** The ledger as another daemon finds it that starts on what is on the disk now. */
function ledgerOfCopy(t: TestContext, host: ControllerHost) {
  const copy = mkdtempSync(join(tmpdir(), 'vmhostd-copy-'))
  t.after(() => rmSync(copy, { recursive: true }))
  cpSync(host.directory, copy, { recursive: true })
  const store = new Store(copy, { first: 600_000, count: NAMES })
  const ledger = store.vms.committed()
  store.close()
  return ledger
}

const sumOf = (host: ControllerHost) =>
  host.store.vms.all().reduce(
    (sum, { desired }) => ({
      cpuMillicores: sum.cpuMillicores + desired.compute.cpuMillicores,
      memoryMib: sum.memoryMib + desired.compute.memoryMib,
      diskMib: sum.diskMib + desired.disk.sizeMib,
    }),
    { cpuMillicores: 0, memoryMib: 0, diskMib: 0 },
  )

for (const seed of [1, 2, 3]) {
  test(`${REQUESTS} concurrent creates, resizes and deletes never commit more than allocatable (seed ${seed})`, async (t) => {
    const host = await startControllerHost(t, pki, { userIds: NAMES })
    Object.assign(host.capacity.total, TOTAL)
    obey(host)
    const most = { memoryMib: 0, diskMib: 0 }
    host.store.onVmChange(() => {
      const { memoryMib, diskMib } = host.store.vms.committed()
      most.memoryMib = Math.max(most.memoryMib, memoryMib)
      most.diskMib = Math.max(most.diskMib, diskMib)
    })
    const answers = await Promise.all(requestsFrom(randomFrom(seed)).map((request) => host.call(request)))
    assert.ok(most.memoryMib <= TOTAL.memoryMib, `${most.memoryMib} MiB of memory were promised`)
    assert.ok(most.diskMib <= TOTAL.diskMib, `${most.diskMib} MiB of disk were promised`)
    const refused = answers.filter(
      ({ status, json }) => status === 409 && json.code === 'insufficient_capacity',
    )
    const taken = answers.filter(({ status }) => status === 202)
    assert.ok(refused.length > 20 && taken.length > 100, `${taken.length} taken, ${refused.length} refused`)

    const ledger = host.store.vms.committed()
    assert.deepEqual(ledger, sumOf(host), 'the ledger is what the records say')
    assert.deepEqual(ledgerOfCopy(t, host), ledger, 'and the same to a daemon that starts on this state')
  })
}
