import assert from 'node:assert/strict'
import { test } from 'node:test'
import { syncOnWire } from '../../../test/vm-on-wire.ts'
import { metersOf, noticesOf } from './capacity.ts'

const memory = (committed: number) => ({
  ...syncOnWire().capacity.memory,
  total_mib: 4096,
  available_mib: 2048,
  committed_mib: committed,
  allocatable_mib: 1024,
  resident_mib: 300,
})

const meters = (committed: number) => metersOf({ ...syncOnWire().capacity, memory: memory(committed) })

test('a meter shows what is committed, what is left and what is measured', () => {
  const [first, cpu, disk] = meters(256)
  assert.deepEqual(first, {
    name: 'Memory',
    part: 0.25,
    words: '256 MiB of 1 GiB committed',
    detail: '768 MiB left · 300 MiB resident in VMs · 2 GiB available on the host',
    isFull: false,
  })
  assert.equal(cpu?.words, '1.5 of 16 cores committed')
  assert.match(disk?.detail ?? '', /left · .* free in the pool/)
})

test('a resource is full before all of it is committed, and too much is said', () => {
  assert.equal(meters(900)[0]?.isFull, false)
  assert.equal(meters(930)[0]?.isFull, true)
  const [over] = meters(1280)
  assert.deepEqual([over?.part, over?.detail.split(' · ')[0]], [1, '256 MiB too much'])
})

const withPoolFree = (mib: number) => {
  const { disks, ...rest } = syncOnWire().capacity
  const free = { total_mib: 10_240, available_mib: mib, committed_mib: 5120, allocatable_mib: 9216 }
  return { ...rest, disks: disks.map((disk) => ({ ...disk, ...free })) }
}

test('a pool without free space is full, however little is committed, and the host says so', () => {
  const capacity = withPoolFree(0)
  assert.equal(metersOf(capacity).at(-1)?.isFull, true)
  assert.deepEqual(
    noticesOf({ ...syncOnWire(), capacity }).filter((notice) => notice.includes('pool')),
    ['The pool has only 0 MiB free. Guests that write to a full pool are paused or get errors.'],
  )
  const roomy = withPoolFree(1024)
  assert.equal(metersOf(roomy).at(-1)?.isFull, false)
  assert.ok(!noticesOf({ ...syncOnWire(), capacity: roomy }).some((notice) => notice.includes('pool')))
})

test('more cores than there are may be committed, and the meter says how many times', () => {
  const { cpu, ...rest } = syncOnWire().capacity
  const [, meter] = metersOf({ ...rest, cpu: { ...cpu, committed_millicores: 9000, total_millicores: 4000 } })
  const expected = { part: 1, isFull: false, detail: '2.3 times the cores, which VMs share' }
  assert.deepEqual({ ...meter, ...expected }, meter)
  assert.equal(meter?.words, '9 of 4 cores committed')
})

test('a host without running guests has no word of resident memory', () => {
  const { memory: known, ...rest } = syncOnWire().capacity
  const [meter] = metersOf({ ...rest, memory: { ...known, resident_mib: 0 } })
  assert.doesNotMatch(meter?.detail ?? '', /resident/)
})

test('a host of which all is well has no notice', () => {
  const sync = syncOnWire()
  const quiet = {
    ...sync,
    snapshots: [],
    consoles: { ...sync.consoles, unprotected: [], places_total: 10, places_free: 5 },
  }
  assert.deepEqual(noticesOf(quiet), [])
})

test('what needs attention is a sentence each', () => {
  const sync = syncOnWire()
  const [snapshot] = sync.snapshots
  assert.ok(snapshot)
  const notices = noticesOf({
    ...sync,
    host: {
      ...sync.host,
      clock: '2032-04-04T00:00:00.000Z',
      maintenance: { state: 'cordoned', observed_state: 'cordoned', reason: 'new kernel' },
      faults: [{ code: 'state_unwritable', detail: 'vmhostd.db was removed' }],
      revocation_list: { revoked: 1, next_update: '2032-04-01T00:00:00.000Z' },
    },
    capacity: { ...sync.capacity, memory: { ...sync.capacity.memory, waiting_vms: 1 } },
    consoles: { ...sync.consoles, places_total: 10, places_free: 0, unprotected: ['web-1', 'web-2'] },
    snapshots: [{ ...snapshot, error: 'no room' }],
  })
  assert.deepEqual(notices, [
    'This host is cordoned: new kernel.',
    'This host has a fault: vmhostd.db was removed.',
    'The certificate of the controller expires in 1 day, on 2032-04-05.',
    'The certificate of the server expires in 1 day, on 2032-04-05.',
    'A newer revocation list was due on 2032-04-01.',
    '1 VM waits for memory.',
    'No console place is free: no further VM can start or wake on this host.',
    'These VMs would end with the daemon; stop and start each once: web-1, web-2.',
    '1 snapshot has an error.',
  ])
})
