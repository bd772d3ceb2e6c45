import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeConsoles } from '../../../test/fakes/fake-consoles.ts'
import { FakeFigures } from '../../../test/fakes/fake-figures.ts'
import { FakeStorage } from '../../../test/fakes/fake-storage.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { silentLog } from '../../log/log.ts'
import { HostInspector } from './host-inspector.ts'
import type { Probe } from '../../core/world/world.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { HostChange } from './host-inspector.ts'

const policy = {
  memoryReserveMib: 1000,
  diskReserveMib: 500,
  diskOvercommit: 1.5,
  memorySleepRatio: 1,
  stagingQuotaMib: 4096,
}

/** Runs everything that waits for neither time nor a release. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

function stage() {
  const clock = new FakeClock()
  const figures = new FakeFigures()
  const storage = new FakeStorage()
  const consoles = new FakeConsoles()
  const changes: HostChange[] = []
  const inspector = new HostInspector({
    figures,
    storage,
    consoles,
    monitorMib: (_kind, guestMib) => guestMib / 4,
    clock,
    policy,
    log: silentLog,
    onChange: (change) => changes.push(change),
  })
  /** Fires the next timer and waits for the end of its look. */
  const nextLook = async (): Promise<void> => {
    clock.advance(limits.figuresEveryMs)
    await turn()
  }
  return { clock, figures, storage, consoles, changes, inspector, nextLook }
}

const valuesOf = (inspector: HostInspector): unknown[] =>
  Object.values(inspector.allocatable()).map((probe) => (probe.known ? probe.value : probe.code))
const codeOf = (probe: Probe<unknown>): string | undefined => (probe.known ? undefined : probe.code)

const hasAddress = (inspector: HostInspector, address: string): boolean | undefined => {
  const addresses = inspector.hostAddresses()
  return addresses.known ? addresses.value.has(address) : undefined
}

test('before the first look nothing is promised', () => {
  const { inspector } = stage()
  assert.equal(codeOf(inspector.allocatable().memoryMib), 'capacity_unknown')
  assert.equal(codeOf(inspector.hostAddresses()), 'capacity_unknown')
})

test('allocatable is memory less its reserve, and the pool times the overcommit less its reserve', async () => {
  const { inspector } = stage()
  await inspector.start()
  assert.deepEqual(valuesOf(inspector), [7192, 149_500, 900])
  inspector.stop()
})

test('images and the quota of staging are taken of the pool; the quota is at most a quarter of it', async () => {
  const { inspector, figures, storage, nextLook } = stage()
  assert.equal(inspector.stagingQuotaMib(), 4096)
  storage.putImage('a'.repeat(64) as Sha256, 100)
  storage.putImage('b'.repeat(64) as Sha256, 20)
  await inspector.start()
  assert.deepEqual(inspector.poolShares(), { known: true, value: { imagesMib: 120, stagingMib: 4096 } })
  figures.poolMib = { totalMib: 2000, availableMib: 1000 }
  await nextLook()
  assert.deepEqual(inspector.poolShares(), { known: true, value: { imagesMib: 120, stagingMib: 500 } })
  figures.setInSight(false)
  await nextLook()
  assert.equal(codeOf(inspector.poolShares()), 'storage_inspection_failed')
  assert.equal(inspector.stagingQuotaMib(), 500)
  figures.setInSight(true)
  figures.poolMib = { totalMib: 200, availableMib: 100 }
  await nextLook()
  assert.equal(inspector.stagingQuotaMib(), limits.stagingQuotaMibMin)
})

test('the share of images in the pool is unknown until they were listed once', async () => {
  const { inspector, storage, nextLook } = stage()
  storage.failNext('images', new HostFault('storage_inspection_failed', 'listing the images'))
  await inspector.start()
  assert.equal(inspector.allocatable().diskMib.known, true)
  assert.equal(codeOf(inspector.poolShares()), 'capacity_unknown')
  await nextLook()
  assert.deepEqual(inspector.poolShares(), { known: true, value: { imagesMib: 0, stagingMib: 4096 } })
  inspector.stop()
})

test('console places are a setting: known from the first answer of systemd on, and not before', async () => {
  const { inspector, consoles, nextLook } = stage()
  consoles.failNext('places', new HostFault('systemd_unavailable', 'asking systemd'))
  await inspector.start()
  assert.equal(codeOf(inspector.allocatable().consolePlaces), 'systemd_unavailable')
  await nextLook()
  assert.deepEqual(inspector.allocatable().consolePlaces, { known: true, value: 900 })
  consoles.failNext('places', new HostFault('systemd_unavailable', 'asking systemd'))
  await nextLook()
  assert.deepEqual(inspector.allocatable().consolePlaces, { known: true, value: 900 })
})

test("the host's own addresses are known as such", async () => {
  const { inspector } = stage()
  await inspector.start()
  assert.equal(hasAddress(inspector, '192.0.2.1'), true)
  assert.equal(hasAddress(inspector, '192.0.2.10'), false)
})

test('the lengths of images are known from the looks that found them, which are not every one', async () => {
  const { inspector, storage, nextLook } = stage()
  const sha256 = 'a'.repeat(64) as Sha256
  await inspector.start()
  assert.equal(inspector.imageMib(sha256), undefined)
  storage.putImage(sha256, 65)
  const looks = Math.ceil(limits.imageSizesEveryMs / limits.figuresEveryMs)
  for (let look = 0; look < looks; look += 1) await nextLook()
  assert.equal(inspector.imageMib(sha256), 65)
  assert.equal(storage.imageListings, 2)
  storage.failNext('images', new HostFault('storage_inspection_failed', 'listing the images'))
  for (let look = 0; look < looks; look += 1) await nextLook()
  assert.equal(storage.imageListings, 3)
  assert.equal(inspector.imageMib(sha256), 65, 'a failed look takes nothing away')
  inspector.stop()
})

test('the length of an image that has come is known at once, also if it came while they were read', async () => {
  const { inspector, storage } = stage()
  const [first, second] = ['a', 'b'].map((digit) => digit.repeat(64) as Sha256) as [Sha256, Sha256]
  await inspector.start()
  storage.putImage(first, 65)
  inspector.noticeImage()
  const listImages = storage.images.bind(storage)
  storage.images = async () => {
    const images = await listImages()
    if (!images.some(({ sha256 }) => sha256 === second)) {
      storage.putImage(second, 66)
      inspector.noticeImage()
    }
    return images
  }
  await turn()
  assert.deepEqual([inspector.imageMib(first), inspector.imageMib(second)], [65, 66])
  inspector.stop()
})

test('every look replaces the one before', async () => {
  const { inspector, figures, nextLook } = stage()
  await inspector.start()
  figures.memoryMib = { totalMib: 3000, availableMib: 100 }
  figures.hostAddresses.add('192.0.2.10')
  await nextLook()
  assert.deepEqual(valuesOf(inspector), [2000, 149_500, 900])
  assert.equal(hasAddress(inspector, '192.0.2.10'), true)
})

test('a figure that a look could not see is unknown with its own code, and no older figure stands in for it', async () => {
  const { inspector, figures, nextLook } = stage()
  await inspector.start()
  figures.setInSight(false)
  await nextLook()
  assert.equal(codeOf(inspector.allocatable().diskMib), 'storage_inspection_failed')
  assert.equal(inspector.allocatable().memoryMib.known, true, 'memory does not depend on the pool')
  assert.equal(inspector.hostAddresses().known, true)
  figures.setInSight(true)
  figures.break('memory', new HostFault('capacity_unknown', 'reading how much memory the host has'))
  await nextLook()
  const unknown = inspector.allocatable().memoryMib
  assert.ok(!unknown.known)
  assert.deepEqual(
    [unknown.code, unknown.message],
    ['capacity_unknown', 'reading how much memory the host has'],
  )
  figures.repair('memory')
  figures.break('addresses', new HostFault('network_failed', "listing the host's addresses"))
  await nextLook()
  assert.equal(inspector.allocatable().diskMib.known, true)
  assert.equal(codeOf(inspector.hostAddresses()), 'network_failed')
})

test('a look that hangs is not joined by others, and figures grow too old to be known', async () => {
  const { inspector, figures, clock, nextLook } = stage()
  await inspector.start()
  const end = figures.holdNext('pool')
  await nextLook()
  const looks = figures.looks.pool
  clock.advance(limits.figuresAgeMsMax - limits.figuresEveryMs)
  assert.equal(inspector.allocatable().diskMib.known, true)
  clock.advance(1)
  const unknown = inspector.allocatable().memoryMib
  assert.ok(!unknown.known)
  assert.equal(unknown.code, 'capacity_unknown')
  assert.match(unknown.message, /the last look at the host is 15 s old/)
  assert.equal(codeOf(inspector.hostAddresses()), 'capacity_unknown')
  clock.advance(60 * limits.figuresEveryMs)
  await turn()
  assert.equal(figures.looks.pool, looks)
  end()
  await turn()
  assert.equal(inspector.allocatable().diskMib.known, false)
  await nextLook()
  assert.equal(inspector.allocatable().diskMib.known, true)
})

test('a figure is as old as the beginning of its look', async () => {
  const { inspector, figures, clock } = stage()
  const end = figures.holdNext('pool')
  const first = inspector.start()
  await turn()
  clock.advance(limits.figuresAgeMsMax + 1)
  end()
  await first
  assert.equal(codeOf(inspector.allocatable().memoryMib), 'capacity_unknown')
})

test('a pool that goes or comes back is reported once each time; what was so at the first look is not', async () => {
  const { inspector, figures, changes, nextLook } = stage()
  figures.setInSight(false)
  await inspector.start()
  await nextLook()
  assert.deepEqual(changes, [])
  figures.setInSight(true)
  await nextLook()
  await nextLook()
  assert.deepEqual(changes, ['pool found'])
  figures.setInSight(false)
  await inspector.look()
  await nextLook()
  assert.deepEqual(changes, ['pool found', 'pool lost'])
})

test('a stopped inspector does not look by itself any more', async () => {
  const { inspector, figures, clock } = stage()
  await inspector.start()
  inspector.stop()
  clock.advance(10 * limits.figuresEveryMs)
  await turn()
  assert.equal(figures.looks.memory, 1)
})

test('an inspector that is stopped during its first look sets no timer', async () => {
  const { inspector, clock } = stage()
  const starting = inspector.start()
  inspector.stop()
  await starting
  assert.equal(clock.nextMs(), undefined)
})
