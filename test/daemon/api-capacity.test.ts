import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { commitmentOf, ledgerOf, totalsOf } from '../../src/core/capacity/ledger.ts'
import { Store } from '../../src/store/store.ts'
import { randomFrom } from '../sim/random.ts'
import { createBody, makePki, startControllerHost } from './support/controller-host.ts'
import type { TestContext } from 'node:test'
import type { Commitment } from '../../src/core/capacity/ledger.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Call, ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const NAMES = 40
const POWERS = ['running', 'paused', 'stopped'] as const
const REQUESTS = 1000
/** When the host has other work, a handshake for each request would exceed the bound on a handshake. */
const CONNECTIONS = 64
const KINDS = ['memoryMib', 'diskMib', 'consolePlaces'] as const
const TOTAL = { memoryMib: 10_000, diskMib: 40_000, consolePlaces: 1 }
const SHARES = { imagesMib: 500, stagingMib: 1500 }
const MONITOR_MIB = 100

/** Returns random requests: three in ten create, three resize, one sets the power, the rest delete. */
function requestsFrom(random: () => number): Call[] {
  const upTo = (most: number): number => 1 + Math.floor(random() * most)
  return Array.from({ length: REQUESTS }, () => {
    const number = upTo(NAMES)
    const path = `/v1/vms/vm-${number}`
    const sleep = random() < 0.5 ? 60 : 0
    const compute = { cpu_millicores: 100, memory_mib: 63 + upTo(1500), sleep_after_idle_seconds: sleep }
    const kind = random()
    if (kind < 0.3) {
      const disk = { size_mib: upTo(6000) }
      const network = { ipv4_address: `192.0.2.${number}` }
      return { method: 'PUT', path, body: createBody({ power: 'stopped', compute, disk, network }) }
    }
    if (kind < 0.4) return { method: 'PUT', path: `${path}/power`, body: { state: POWERS[upTo(3) - 1] } }
    if (kind < 0.7)
      return { method: 'PUT', path: `${path}/resize`, body: { ...compute, disk: { size_mib: upTo(9000) } } }
    return { method: 'DELETE', path }
  })
}

/** A host on which every VM stops and disappears as soon as a request asks for it. */
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

/** Returns the ledger of another daemon that starts on the present content of the disk. */
function ledgerOfCopy(t: TestContext, host: ControllerHost) {
  const copy = mkdtempSync(join(tmpdir(), 'vmhostd-copy-'))
  t.after(() => rmSync(copy, { recursive: true }))
  cpSync(host.directory, copy, { recursive: true })
  const store = new Store(copy, { first: 600_000, count: NAMES })
  const ledger = ledgerIn(store)
  store.close()
  return ledger
}

const TERMS = { monitorMib: () => MONITOR_MIB, sleepRatio: 1 }

const ledgerIn = (store: Store) => ledgerOf(store.vms.recorded(), SHARES, TERMS)

/** Returns the sum of the commitments to all VMs. */
const sumOf = (host: ControllerHost): Commitment =>
  host.store.vms
    .list({})
    .map((record) => commitmentOf(record, TERMS))
    .reduce(
      (sum, one) => ({
        memoryMib: sum.memoryMib + one.memoryMib,
        diskMib: sum.diskMib + one.diskMib,
        consolePlaces: sum.consolePlaces + one.consolePlaces,
      }),
      { memoryMib: 0, diskMib: SHARES.imagesMib + SHARES.stagingMib, consolePlaces: 0 },
    )

for (const seed of [1, 2, 3]) {
  test(`${REQUESTS} concurrent creates, resizes and deletes never commit more than allocatable (seed ${seed})`, async (t) => {
    const host = await startControllerHost(t, pki, { userIds: NAMES, connectionsMax: CONNECTIONS })
    Object.assign(host.capacity.total, TOTAL)
    obey(host)
    host.capacity.shares = SHARES
    host.capacity.monitor = MONITOR_MIB
    const most = { memoryMib: 0, diskMib: 0, consolePlaces: 0 }
    host.store.onVmChange(() => {
      const totals = totalsOf(ledgerIn(host.store))
      for (const kind of KINDS) most[kind] = Math.max(most[kind], totals[kind])
    })
    const answers = await Promise.all(requestsFrom(randomFrom(seed)).map((request) => host.call(request)))
    for (const kind of KINDS) assert.ok(most[kind] <= TOTAL[kind], `${kind}: ${most[kind]} were promised`)
    const refused = answers.filter(
      ({ status, json }) => status === 409 && json.code === 'insufficient_capacity',
    )
    const taken = answers.filter(({ status }) => status === 202)
    assert.ok(refused.length > 20 && taken.length > 100, `${taken.length} taken, ${refused.length} refused`)

    const ledger = ledgerIn(host.store)
    assert.deepEqual(totalsOf(ledger), sumOf(host), 'the ledger is what the records say')
    assert.deepEqual(ledgerOfCopy(t, host), ledger, 'and the same to a daemon that starts on this state')
  })
}
