import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordOf } from '../../../test/record.ts'
import { limits } from '../../config/limits.ts'
import {
  NO_SHARES,
  allocatableDiskMib,
  allocatableMemoryMib,
  commitmentOf,
  heldMemoryMib,
  heldPlacesMax,
  ledgerOf,
  shortages,
  stagingQuotaMib,
  totalsOf,
} from './ledger.ts'
import { randomFrom } from '../../../test/sim/random.ts'
import type { VmRecord } from '../vm/record.ts'
import type { MemoryTerms, Recorded } from './ledger.ts'

const MEMORY_MIB = 512
const DISK_MIB = 64
const TERMS = { monitorMib: () => 0, sleepRatio: 1 }
const SAVED_MIB = MEMORY_MIB + limits.savedDevicesMib
const network = { macAddress: '52:54:00:12:34:56' as never, ipv4Address: '192.0.2.10' }

for (const [monitor, states] of [
  ['qemu', 1],
  ['firecracker', 2],
] as const) {
  test(`a guest of ${monitor} that may sleep is promised the room of saved states: ${states}`, () => {
    const { desired } = recordOf()
    const compute = { cpuMillicores: 1000, memoryMib: MEMORY_MIB, sleepAfterIdleSeconds: 60 }
    const record = { monitor, desired: { ...desired, compute, network, disk: { sizeMib: DISK_MIB } } }
    const { diskMib } = commitmentOf(record, TERMS)
    assert.equal(diskMib, DISK_MIB + states * SAVED_MIB)
    const classes = [{ monitor, memoryMib: MEMORY_MIB, vms: 3, sleepers: 2, lenders: 0, partPromised: 0 }]
    const recorded = { cpuMillicores: 0, disksMib: 0, consolePlaces: 0, classes }
    const { savedMib } = ledgerOf(recorded, NO_SHARES, TERMS)
    assert.equal(savedMib, 2 * states * SAVED_MIB)
  })
}

test('a VM that never sleeps is promised the room of a saved state while its guest may be saved', () => {
  const { desired } = recordOf()
  const compute = { cpuMillicores: 1000, memoryMib: MEMORY_MIB, sleepAfterIdleSeconds: 0 }
  const record = { monitor: 'qemu', desired: { ...desired, compute, disk: { sizeMib: DISK_MIB } } } as const
  assert.equal(commitmentOf(record, TERMS).diskMib, DISK_MIB)
  assert.equal(commitmentOf({ ...record, mayBeSaved: true }, TERMS).diskMib, DISK_MIB + SAVED_MIB)
})

/** Returns a VM of a random shape, which may have lent its memory: while it sleeps, or while it is stopped. */
function randomVm(random: () => number): Pick<VmRecord, 'desired' | 'monitor' | 'memoryLent'> {
  const { desired } = recordOf()
  const compute = {
    cpuMillicores: 1000,
    memoryMib: 64 + Math.floor(random() * 1000),
    sleepAfterIdleSeconds: random() < 0.2 ? 0 : 60,
    ...(random() < 0.2 ? { wake: 'guaranteed' as const } : {}),
  }
  // The store never notes a loan of a VM with a guaranteed wake.
  const lends = compute.wake === undefined && random() < 0.7
  const monitor = random() < 0.5 ? 'qemu' : 'firecracker'
  return { monitor, desired: { ...desired, compute, network }, ...(lends ? { memoryLent: true } : {}) }
}

const recordedOf = (vms: readonly ReturnType<typeof randomVm>[]): Recorded => ({
  cpuMillicores: 0,
  disksMib: 0,
  consolePlaces: 0,
  classes: vms.map(({ monitor, desired, memoryLent }) => ({
    monitor,
    memoryMib: desired.compute.memoryMib,
    vms: 1,
    sleepers: 1,
    lenders: memoryLent === true ? 1 : 0,
    partPromised: memoryLent === true && desired.compute.sleepAfterIdleSeconds > 0 ? 1 : 0,
  })),
})

for (const seed of [1, 2, 3]) {
  test(`at any ratio the ledger is the sum of the commitments, between held and whole memory (seed ${seed})`, () => {
    const random = randomFrom(seed)
    for (let round = 0; round < 200; round += 1) {
      const vms = Array.from({ length: 1 + Math.floor(random() * 20) }, () => randomVm(random))
      const recorded = recordedOf(vms)
      const atRatio = (sleepRatio: number): number => {
        const terms = { monitorMib: (_kind: unknown, guestMib: number) => 7 + (guestMib % 13), sleepRatio }
        const total = totalsOf(ledgerOf(recorded, NO_SHARES, terms)).memoryMib
        const sum = vms.reduce((all, vm) => all + commitmentOf(vm, terms).memoryMib, 0)
        assert.equal(total, sum)
        assert.equal(heldMemoryMib(recorded, terms), atHeld(vms, terms))
        return total
      }
      const [none, some, more, whole] = [0, random() / 2, 0.5 + random() / 2, 1].map(atRatio)
      assert.ok(none! <= some! && some! <= more! && more! <= whole!, `${none} ${some} ${more} ${whole}`)
    }
  })
}

/** Returns the whole memory of the VMs that have theirs. */
const atHeld = (vms: readonly ReturnType<typeof randomVm>[], terms: MemoryTerms): number =>
  vms
    .filter(({ memoryLent }) => memoryLent !== true)
    .reduce((all, vm) => all + commitmentOf(vm, { ...terms, sleepRatio: 1 }).memoryMib, 0)

const NOTHING = { memoryMib: 0, monitorMib: 0, diskMib: 0, savedMib: 0, consolePlaces: 0 }

test('a shortage names the part that no request names', () => {
  const wordsOf = (increase: object) =>
    shortages(NOTHING, { ...NOTHING, ...increase }, NOTHING).map(({ words }) => words)
  assert.deepEqual(wordsOf({ memoryMib: 1152, monitorMib: 128, diskMib: 2120, savedMib: 2056 }), [
    'memory by 1152 MiB (1152 MiB more needed, 128 of them for its monitor, 0 MiB free of 0 MiB)',
    'disk by 2120 MiB (2120 MiB more needed, 2056 of them for its saved memory, 0 MiB free of 0 MiB)',
  ])
  assert.deepEqual(wordsOf({ diskMib: 2056, savedMib: 2056 }), [
    'disk by 2056 MiB (2056 MiB more needed for its saved memory, 0 MiB free of 0 MiB)',
  ])
})

for (const [promised, left] of [
  [100, '412 MiB (512 MiB more needed, 100 MiB free of 200 MiB)'],
  [200, '512 MiB (512 MiB more needed, 0 MiB free of 200 MiB)'],
  [256, '568 MiB (512 MiB more needed, 56 MiB promised already beyond its 200 MiB)'],
] as const) {
  test(`a shortage adds up when ${promised} of 200 MiB are promised`, () => {
    const mib = (memoryMib: number) => ({ ...NOTHING, memoryMib })
    const [short] = shortages(mib(promised), mib(512), mib(200))
    assert.equal(short?.words, `memory by ${left}`)
  })
}

test('a host that is smaller than its reserve can promise nothing, and not less than that', () => {
  assert.equal(allocatableMemoryMib(1000, 1001), 0)
  assert.equal(allocatableDiskMib(1000, { overcommit: 1.5, reserveMib: 1501 }), 0)
  assert.equal(allocatableDiskMib(1000, { overcommit: 1.5, reserveMib: 1499 }), 1)
})

test('staging keeps a least quota in a small pool, and never more than is configured', () => {
  const smallPoolMib = limits.stagingQuotaMibMin
  assert.equal(stagingQuotaMib(4096, smallPoolMib), limits.stagingQuotaMibMin)
  assert.equal(stagingQuotaMib(limits.stagingQuotaMibMin, 1_000_000), limits.stagingQuotaMibMin)
})

test('VMs that wake share at least one console place, however few there are', () => {
  assert.deepEqual([1, 2, 10, 11].map(heldPlacesMax), [0, 1, 9, 9])
})

test('the part of a lent memory that stays promised is rounded up for each VM', () => {
  const terms = { ...TERMS, sleepRatio: 0.5 }
  const { desired } = recordOf()
  const compute = { cpuMillicores: 1000, memoryMib: 101, sleepAfterIdleSeconds: 60 }
  const vm = { monitor: 'qemu', desired: { ...desired, compute, network }, memoryLent: true } as const
  assert.equal(commitmentOf(vm, terms).memoryMib, 51)
  const two = { monitor: 'qemu', memoryMib: 101, vms: 2, sleepers: 2, lenders: 2, partPromised: 2 } as const
  const recorded = { cpuMillicores: 0, disksMib: 0, consolePlaces: 0, classes: [two] }
  assert.equal(ledgerOf(recorded, NO_SHARES, terms).guestsMib, 102)
})
