import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { DatabaseSync } from 'node:sqlite'
import { breakRecord } from '../../test/break-record.ts'
import { SignedUrl } from '../core/outbound/signed-url.ts'
import { InvariantError } from '../lib/assert.ts'
import { StateDirectoryInUse } from './database/open-database.ts'
import { Store } from './store.ts'
import type { Desired, DesiredPower } from '../core/desired.ts'
import type { Generation, MacAddress, OperationId, Sha256, UserId, VmId } from '../core/ids.ts'
import type { Progress } from '../core/vm/record.ts'
import type { NewVm } from './vm/new-vm.ts'

const range = { first: 600_000, count: 3 }
const rootfs = 'a'.repeat(64) as Sha256
const desired: Desired = {
  power: 'running',
  compute: { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 },
  disk: { sizeMib: 64 },
  image: { rootfsSha256: rootfs, kernelSha256: 'b'.repeat(64) as Sha256 },
  network: { macAddress: '02:00:00:00:00:01' as MacAddress, ipv4Address: '192.0.2.10' },
}

let directory: string
let store: Store

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'vmhostd-store-'))
  store = new Store(directory, range)
})

afterEach(() => {
  store.close()
  rmSync(directory, { recursive: true })
})

const newVm = (id: string, changes: Partial<Desired> = {}): NewVm => ({
  id: id as VmId,
  userId: store.vms.freeUserId() as UserId,
  monitor: 'qemu',
  desired: { ...desired, ...changes },
  metadata: { labels: {}, protected: false },
  inputs: {
    request: '{}',
    sources: new Map([[rootfs, { url: new SignedUrl('https://images.example/a?sig=1') }]]),
    sshAuthorizedKeys: ['ssh-ed25519 AAAA'],
    userData: '#cloud-config',
  },
  operationId: 'op-1' as OperationId,
  nowMs: 1000,
})

const withoutNetwork = (id: string): NewVm => {
  const { network: _network, ...rest } = desired
  return { ...newVm(id), desired: rest }
}

const reopen = (): void => {
  store.close()
  store = new Store(directory, range)
}

test('a stored VM is read back as it was, by the next process too', () => {
  const inserted = store.vms.insert(newVm('web-1'))
  const { storeId } = store
  reopen()
  assert.deepEqual(store.vms.get('web-1' as VmId), inserted)
  assert.equal(store.storeId, storeId)
  const inputs = store.vms.inputs('web-1' as VmId)
  assert.equal(inputs.userData, '#cloud-config')
  assert.equal(inputs.sources.get(rootfs)?.url.reveal(), 'https://images.example/a?sig=1')
})

test('a change of desired state and its generation are stored together', () => {
  const before = store.vms.insert(newVm('web-1'))
  const after = store.vms.changeDesired(before.id, {
    desired: { ...desired, power: 'stopped' },
    operationId: 'op-2' as OperationId,
    nowMs: 2000,
  })
  assert.equal(after.generations.desired, 2)
  assert.equal(after.generations.observed, 0)
  assert.equal(after.operationId, 'op-2')
  assert.ok(after.revision > before.revision)
  reopen()
  assert.deepEqual(store.vms.get(before.id), after)
})

test('a generation does not rise without a change', () => {
  const { id } = store.vms.insert(newVm('web-1'))
  assert.throws(
    () =>
      store.vms.changeDesired(id, { desired: { ...desired }, operationId: 'op-2' as OperationId, nowMs: 2 }),
    InvariantError,
  )
  assert.equal(store.vms.get(id)?.generations.desired, 1)
})

test('the newest stop stays on record whatever power follows, until a look finds it carried out', () => {
  const { id } = store.vms.insert(newVm('web-1'))
  const set = (power: DesiredPower) =>
    store.vms.changeDesired(id, {
      desired: { ...desired, power },
      operationId: 'op-2' as OperationId,
      nowMs: 2,
    })
  const observed = { state: 'pending', sinceMs: 1000 } as const
  assert.deepEqual(set('stopped').stops, { accepted: 2, carriedOut: 0 })
  assert.deepEqual(set('running').stops, { accepted: 2, carriedOut: 0 })
  assert.deepEqual(set('stopped').stops, { accepted: 4, carriedOut: 0 })
  const { revision } = store.vms.recordProgress(id, { observed, nowMs: 2 }) ?? {}
  const done = store.vms.recordProgress(id, { observed, stopCarriedOut: 4, nowMs: 3 })
  assert.deepEqual([done?.stops, done?.revision], [{ accepted: 4, carriedOut: 4 }, revision])
})

test('an observed generation neither falls nor passes the desired one', () => {
  const { id } = store.vms.insert(newVm('web-1'))
  const record = (generation: number) =>
    store.vms.recordProgress(id, {
      observed: { state: 'running', sinceMs: 1000 },
      observedGeneration: generation as Generation,
      nowMs: 2000,
    })
  assert.throws(() => record(2), InvariantError)
  record(1)
  assert.throws(() => record(0), InvariantError)
  assert.deepEqual(store.vms.get(id)?.generations, { desired: 1, observed: 1 })
})

test('progress that shows nothing new raises no revision and announces nothing', () => {
  const { id } = store.vms.insert(newVm('web-1'))
  const reported: string[] = []
  store.onVmChange((changed) => reported.push(changed))
  const first = store.vms.recordProgress(id, { observed: { state: 'starting', sinceMs: 1000 }, nowMs: 2000 })
  const second = store.vms.recordProgress(id, { observed: { state: 'starting', sinceMs: 1000 }, nowMs: 3000 })
  assert.deepEqual(second, first)
  assert.deepEqual(reported, ['web-1'])
})

test('a launch is host bookkeeping: it raises no revision', () => {
  const { id, revision } = store.vms.insert(newVm('web-1'))
  const launch = { bootId: 'boot', atMs: 5, compute: desired.compute }
  const record = store.vms.recordProgress(id, {
    observed: { state: 'pending', sinceMs: 1000 },
    launch,
    nowMs: 2000,
  })
  assert.equal(record?.revision, revision)
  assert.deepEqual(store.vms.get(id)?.launch, launch)
  store.vms.recordProgress(id, { observed: { state: 'pending', sinceMs: 1000 }, launch: null, nowMs: 2000 })
  assert.equal(store.vms.get(id)?.launch, undefined)
})

test('with another range of user ids, VMs keep theirs and new ones come from the new range', () => {
  const { host: before } = store.vms.insert(newVm('web-1'))
  store.close()
  store = new Store(directory, { first: 2_100_000_000, count: 3 })
  assert.deepEqual(store.vms.get('web-1' as VmId)?.host, before)
  const ids = ['web-2', 'web-3', 'web-4'].map((id) => store.vms.insert(withoutNetwork(id)).host.userId)
  assert.deepEqual(new Set(ids), new Set([2_100_000_000, 2_100_000_001, 2_100_000_002]))
})

test('two VMs never share an address, a user id or a device', () => {
  const first = store.vms.insert(newVm('web-1'))
  assert.equal(store.addresses.holder('192.0.2.10'), 'web-1')
  assert.equal(store.addresses.holder('192.0.2.10', first.id), undefined)
  assert.throws(() => store.vms.insert(newVm('web-2')), /UNIQUE/)
  assert.equal(store.vms.get('web-2' as VmId), undefined)
  assert.throws(() => store.vms.insert({ ...withoutNetwork('web-3'), userId: first.host.userId }), /UNIQUE/)
})

test('the holder of an address may have it in its prefix, also after a change', () => {
  const own = { macAddress: '02:00:5e:10:00:01' as MacAddress, ipv6Address: '2001:db8::10' }
  const before = newVm('web-1', { network: { ...own, ipv6Prefix: '2001:db8:1::/64' } })
  const { id } = store.vms.insert(before)
  assert.equal(store.addresses.holder('2001:db8:1::5'), id)
  assert.equal(store.addresses.holder('2001:db8:2::5'), undefined)
  for (const network of ['2001:db8::/64', '2001:db8:1::/48', '2001:db8:1:0:8000::/65'])
    assert.equal(store.addresses.prefixHolder(network), id, network)
  assert.equal(store.addresses.prefixHolder('2001:db8:1::/48', id), undefined)
  const changed = { ...before.desired, network: { ...own, ipv6Prefix: '2001:db8:2::/64' } }
  store.vms.changeDesired(id, { desired: changed, operationId: 'op-2' as OperationId, nowMs: 2000 })
  assert.equal(store.addresses.holder('2001:db8:1::5'), undefined)
  assert.equal(store.addresses.holder('2001:db8:2::5'), id)
})

test('what a VM wants of the network is known even if the rest of its record cannot be read', () => {
  const { id, host, desired: wanted } = store.vms.insert(newVm('web-1'))
  store.close()
  breakRecord(directory, id)
  store = new Store(directory, range)
  assert.throws(() => store.vms.get(id), SyntaxError)
  assert.deepEqual(store.addresses.wantedBy(id), { id, host, desired: wanted })
  assert.equal(store.addresses.wantedBy('web-2' as VmId), undefined)
})

test('user ids go round the range, so that a freed one rests, and run out in the end', () => {
  const ids = ['a', 'b', 'c'].map((id) => store.vms.insert(withoutNetwork(id)).host.userId)
  assert.deepEqual(ids, [600_000, 600_001, 600_002])
  assert.equal(store.vms.freeUserId(), undefined)
  store.vms.changeDesired('b' as VmId, { deleting: true, operationId: 'op-2' as OperationId, nowMs: 2 })
  store.vms.forget('b' as VmId, 0)
  assert.equal(store.vms.freeUserId(), 600_001)
})

test('the user id of a VM that was just deleted goes to no other VM while there are more', () => {
  store.vms.insert(newVm('web-1'))
  const { id, host } = store.vms.insert(withoutNetwork('web-2'))
  store.vms.changeDesired(id, { deleting: true, operationId: 'op-2' as OperationId, nowMs: 2 })
  store.vms.forget(id, 3)
  assert.equal(store.vms.freeUserId(), host.userId + 1)
})

test('a reservation of user ids leaves out those of VMs on record, which are free again with their VMs', () => {
  const { id, host } = store.vms.insert(newVm('web-1'))
  store.reserveUserIds([600_000, 600_001, 600_002] as UserId[])
  assert.equal(store.vms.freeUserId(), undefined)
  store.vms.changeDesired(id, { deleting: true, operationId: 'op-2' as OperationId, nowMs: 2 })
  store.vms.forget(id, 3)
  assert.equal(store.vms.freeUserId(), host.userId)
})

test('only a VM under deletion is forgotten', () => {
  const { id } = store.vms.insert(newVm('web-1'))
  assert.throws(() => store.vms.forget(id, 0), InvariantError)
  assert.notEqual(store.vms.get(id), undefined)
})

test('a list is ordered by id, goes on after a cursor, and filters by state', () => {
  for (const id of ['c', 'a', 'b']) store.vms.insert(withoutNetwork(id))
  store.vms.recordProgress('b' as VmId, { observed: { state: 'running', sinceMs: 1000 }, nowMs: 2000 })
  const ids = (query: Parameters<typeof store.vms.list>[0]) => store.vms.list(query).map(({ id }) => id)
  assert.deepEqual(ids({ limit: 2 }), ['a', 'b'])
  assert.deepEqual(ids({ limit: 2, after: 'b' as VmId }), ['c'])
  assert.deepEqual(ids({ limit: 9, state: 'running' }), ['b'])
})

test('a list filters by labels, of which a VM has all', () => {
  const insert = (id: string, labels: Record<string, string>) =>
    store.vms.insert({ ...withoutNetwork(id), metadata: { labels, protected: false } })
  insert('a', { env: 'prod', 'example.net/tier': 'web', 1: '2', empty: '' })
  insert('b', { env: 'prod' })
  insert('c', {})
  const ids = (...labels: (readonly [string, string])[]) => store.vms.list({ labels }).map(({ id }) => id)
  assert.deepEqual(ids(['env', 'prod']), ['a', 'b'])
  assert.deepEqual(ids(['env', 'prod'], ['example.net/tier', 'web'], ['1', '2'], ['empty', '']), ['a'])
  assert.deepEqual(ids(['env', 'prod'], ['env', 'test']), [])
  assert.deepEqual(ids(['example', 'web']), [])
})

test('a second process is refused the state directory, and says what to do', () => {
  assert.throws(
    () => new Store(directory, range),
    (error: Error) => {
      assert.ok(error instanceof StateDirectoryInUse)
      assert.match(error.message, /stop it first/)
      return true
    },
  )
})

test('the store is readable by its owner alone', () => {
  assert.equal(statSync(`${directory}/vmhostd.db`).mode & 0o077, 0)
})

test('a store of a newer version is refused and left as it is', () => {
  store.close()
  const db = new DatabaseSync(`${directory}/vmhostd.db`)
  const { user_version: version } = db.prepare('PRAGMA user_version').get() as { user_version: number }
  db.exec('PRAGMA user_version = 99')
  db.close()
  assert.throws(() => new Store(directory, range), /newer/)
  const again = new DatabaseSync(`${directory}/vmhostd.db`)
  assert.deepEqual({ ...again.prepare('PRAGMA user_version').get() }, { user_version: 99 })
  again.exec(`PRAGMA user_version = ${version}`)
  again.close()
  store = new Store(directory, range)
})

test('a revision is given out once: not again to another VM of the same id, nor after a restart', () => {
  const seen = new Set<number>()
  const note = (revision: number | undefined): void => {
    assert.ok(revision !== undefined && !seen.has(revision), `${revision} came twice`)
    seen.add(revision)
  }
  for (let life = 0; life < 3; life += 1) {
    note(store.vms.insert(newVm('a')).revision)
    note(
      store.vms.changeDesired('a' as VmId, { deleting: true, operationId: 'op-2' as OperationId, nowMs: 1 })
        .revision,
    )
    store.vms.forget('a' as VmId, 0)
    if (life === 1) reopen()
  }
  assert.deepEqual(
    [...seen].toSorted((x, y) => x - y),
    [...seen],
    'and it only rises',
  )
})

test('a transaction that fails in the middle leaves nothing behind, and throws its own reason', () => {
  const reported: string[] = []
  store.onVmChange((id) => reported.push(id))
  const attempt = (): void =>
    store.transaction(() => {
      store.vms.insert(newVm('a'))
      throw new Error('on purpose')
    })
  assert.throws(attempt, /on purpose/)
  assert.equal(store.vms.get('a' as VmId), undefined)
  store.vms.insert(withoutNetwork('b'))
  assert.deepEqual(reported, ['b'])
})

test('a rehearsal reports no change, also not with the next one, and uses up no user id', () => {
  const reported: string[] = []
  store.onVmChange((id) => reported.push(id))
  const free = store.vms.freeUserId()
  store.rehearse(() => store.vms.insert(newVm('a')))
  assert.deepEqual(reported, [])
  store.vms.insert(withoutNetwork('b'))
  assert.deepEqual([reported, store.vms.get('b' as VmId)?.host.userId], [['b'], free])
})

test('a request for a wake is stored for the next process, and no reader can see it', () => {
  const { id, revision } = store.vms.insert(newVm('web-1'))
  const reported: string[] = []
  store.onVmChange((changed) => reported.push(changed))
  store.vms.requestWake(id, { reason: 'power', atMs: 5 })
  store.vms.requestWake(id, { reason: 'console', atMs: 6 })
  reopen()
  const record = store.vms.get(id)
  assert.deepEqual(record?.wake, { reason: 'power', atMs: 5 }, 'the first stands')
  assert.deepEqual([record?.revision, record?.generations.desired, reported], [revision, 1, []])
})

test('progress leaves a wake that was asked for meanwhile, and removes it when asked', () => {
  const { id, observed } = store.vms.insert(newVm('web-1'))
  store.vms.requestWake(id, { reason: 'power', atMs: 5 })
  store.vms.recordProgress(id, { observed, exitStreak: 1, nowMs: 2000 })
  assert.notEqual(store.vms.get(id)?.wake, undefined)
  const begun = { reason: 'power', atMs: 5, savedAtMs: 1 } as const
  assert.deepEqual(store.vms.recordProgress(id, { observed, wake: begun, nowMs: 2000 })?.wake, begun)
  assert.equal(store.vms.recordProgress(id, { observed, wake: null, nowMs: 2000 })?.wake, undefined)
})

test('that a guest may be saved is flushed, and other progress is not', async () => {
  let flushes = 0
  store.close()
  store = new Store(directory, range, {
    datasync: async () => {
      flushes += 1
    },
  })
  const { id, observed } = store.vms.insert(newVm('web-1'))
  const flushesOf = async (progress: Partial<Progress>): Promise<number> => {
    await store.flushed()
    const before = flushes
    store.vms.recordProgress(id, { observed, nowMs: 2000, ...progress })
    await store.flushed()
    return flushes - before
  }
  assert.equal(await flushesOf({ exitStreak: 1 }), 0)
  assert.equal(await flushesOf({ mayBeSaved: true }), 1)
})

test('that a guest may be saved is kept until a write says otherwise', () => {
  const { id, observed, revision } = store.vms.insert(newVm('web-1'))
  store.vms.recordProgress(id, { observed, mayBeSaved: true, nowMs: 2000 })
  reopen()
  assert.equal(store.vms.get(id)?.mayBeSaved, true)
  store.vms.recordProgress(id, { observed, nowMs: 2000 })
  assert.equal(store.vms.get(id)?.mayBeSaved, true)
  const after = store.vms.recordProgress(id, { observed, mayBeSaved: false, nowMs: 2000 })
  assert.deepEqual([after?.mayBeSaved, after?.revision], [undefined, revision])
})
