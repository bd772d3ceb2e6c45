import assert from 'node:assert/strict'
import { test } from 'node:test'
import { monitorStateOf, diskCountersIn, diskIn, resizeArguments, throttleArguments } from './qemu-state.ts'

const disk = { sizeMib: 64 }

test('a guest runs, also while it sleeps by its own will', () => {
  assert.deepEqual(monitorStateOf('running', disk), { kind: 'running', disk })
  assert.deepEqual(monitorStateOf('suspended', disk), { kind: 'running', disk })
})

test('a guest that was stopped, or not yet started, is paused', () => {
  assert.deepEqual(monitorStateOf('paused', disk), { kind: 'paused', disk })
  assert.deepEqual(monitorStateOf('prelaunch', disk), { kind: 'paused', disk })
})

for (const status of ['finish-migrate', 'postmigrate', 'save-vm']) {
  test(`a guest that is or was saved is paused: ${status}`, () => {
    assert.deepEqual(monitorStateOf(status, disk), { kind: 'paused', disk })
  })
}

test('a guest that is being restored is neither paused nor ended', () => {
  assert.deepEqual(monitorStateOf('inmigrate', disk), { kind: 'restoring' })
})

test('a guest whose disk failed is stalled, and has not ended', () => {
  assert.deepEqual(monitorStateOf('io-error', disk), { kind: 'stalled', status: 'io-error', disk })
})

for (const status of ['shutdown', 'internal-error', 'guest-panicked', 'watchdog', 'a-new-one']) {
  test(`${status} is the monitor's own word for a guest that has ended`, () => {
    assert.deepEqual(monitorStateOf(status, disk), { kind: 'broken', status })
  })
}

const MIB = 1024 * 1024

/** Returns an answer of QEMU 10.0, without the members that are not read. */
const block = (nodeName: string, device: string, inserted: object = {}): object => ({
  device: '',
  qdev: `/machine/peripheral-anon/device[${device}]/virtio-backend`,
  inserted: { 'node-name': nodeName, image: { 'virtual-size': 64 * MIB }, iops: 0, bps: 0, ...inserted },
})

test('the disk is found among the devices by its node, with its size and its limits', () => {
  const limited = block('disk', '1', { iops: 100, bps: 5 * MIB })
  assert.deepEqual(diskIn([block('seed', '0'), limited]), {
    qdev: '/machine/peripheral-anon/device[1]/virtio-backend',
    sizeMib: 64,
    iopsMax: 100,
    mibPerSecondMax: 5,
  })
})

test('a disk without limits shows none', () => {
  const { qdev: _qdev, ...found } = diskIn([block('disk', '0')]) ?? {}
  assert.deepEqual(found, { sizeMib: 64 })
})

test('a foreign limit, between two of ours, is seen as it is', () => {
  assert.equal(diskIn([block('disk', '0', { bps: 1.5 * MIB })])?.mibPerSecondMax, 1.5)
})

test('a monitor without our disk has none, whatever else it has', () => {
  assert.equal(diskIn([block('seed', '0'), { device: 'floppy0' }]), undefined)
  assert.equal(diskCountersIn([{ 'node-name': 'seed', stats: {} }]), undefined)
})

test('a limit that is absent is lifted', () => {
  const none = { bps_rd: 0, bps_wr: 0, iops_rd: 0, iops_wr: 0 }
  assert.deepEqual(throttleArguments('/d', { mibPerSecondMax: 3 }), {
    id: '/d',
    iops: 0,
    bps: 3 * MIB,
    ...none,
  })
  assert.deepEqual(throttleArguments('/d', { iopsMax: 7 }), { id: '/d', iops: 7, bps: 0, ...none })
})

test('a size is given in bytes', () => {
  assert.deepEqual(resizeArguments(128), { 'node-name': 'disk', size: 128 * MIB })
})

test('the counters of the disk are those of its device', () => {
  const stats = { rd_bytes: 1, rd_operations: 2, wr_bytes: 3, wr_operations: 4, flush_operations: 5 }
  const counters = { readBytes: 1, readOperations: 2, writtenBytes: 3, writeOperations: 4 }
  assert.deepEqual(diskCountersIn([{ 'node-name': 'disk', stats }]), counters)
})

const NO_LISTS = [undefined, null, 7, 'text', {}, [null], [7], [{}]]

test('what is not as QEMU shows a disk is none', () => {
  const node = { 'node-name': 'disk' }
  const [good] = [block('disk', '0')]
  assert.notEqual(diskIn([null, 7, { inserted: null }, good]), undefined)
  for (const answer of [
    ...NO_LISTS,
    [{ ...good, inserted: null }],
    [{ ...good, inserted: node }],
    [{ ...good, qdev: 7 }],
    ...[null, 'text', {}, { 'virtual-size': '67108864' }, { 'virtual-size': -1 }].map((image) => [
      block('disk', '0', { image }),
    ]),
    ...[null, '1', -1, 0.5, Infinity, NaN, [], { toString: 7 }].flatMap((figure) => [
      [block('disk', '0', { iops: figure })],
      [block('disk', '0', { bps: figure })],
    ]),
  ])
    assert.equal(diskIn(answer), undefined, JSON.stringify(answer))
})

test('counters that are not numbers, or negative, are not counted', () => {
  const stats = { rd_bytes: 2 ** 60, rd_operations: 2, wr_bytes: 3, wr_operations: 4 }
  const shown = (changes: object): unknown =>
    diskCountersIn([{ 'node-name': 'disk', stats: { ...stats, ...changes } }])
  assert.notEqual(shown({}), undefined)
  for (const answer of [
    ...NO_LISTS,
    [{ 'node-name': 'disk', stats: null }],
    [{ 'node-name': 'disk', stats: 7 }],
  ])
    assert.equal(diskCountersIn(answer), undefined, JSON.stringify(answer))
  for (const name of Object.keys(stats))
    for (const figure of [undefined, null, '1', -1, 0.5, Infinity, NaN, {}])
      assert.equal(shown({ [name]: figure }), undefined, `${name}: ${JSON.stringify(figure)}`)
})
