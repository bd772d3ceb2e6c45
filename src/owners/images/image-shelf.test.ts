import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { mock, test } from 'node:test'
import { createVm } from '../../commands/vm/create-vm.ts'
import { deleteVm } from '../../commands/vm/delete-vm.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { Store } from '../../store/store.ts'
import { createRequest } from '../../../test/command-stage.ts'
import { composed, listening, settingsWith } from '../../../test/composed.ts'
import { FakeCapacity } from '../../../test/fakes/fake-capacity.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { FakeHost } from '../../../test/fakes/fake-host.ts'
import { recordingLog } from '../../../test/recording-log.ts'
import { stopsBefore } from '../../../test/stops-before.ts'
import { DAY_MS, HOUR_MS } from '../../lib/time-units.ts'
import type { TestContext } from 'node:test'
import type { Composition } from '../../daemon/compose.ts'
import type { ImageShelf } from './image-shelf.ts'
import type { OperationId, Sha256, VmId } from '../../core/ids.ts'

const TURNS = 50
const web = 'web-1' as VmId
const operationId = 'op-1' as OperationId

function stage(t: TestContext, { idleHours = 24 } = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'image-shelf-'))
  const store = new Store(directory, { first: 600_000, count: 5 }, { datasync: async () => {} })
  const clock = new FakeClock()
  const host = new FakeHost(clock, store.storeId)
  const { storage } = host
  const { log, lines } = recordingLog()
  storage.now = () => clock.now()
  const compose = (): Composition =>
    composed({
      store,
      host,
      log,
      settings: settingsWith({ storage: { imageIdleHours: idleHours } }),
      instead: { capacity: new FakeCapacity(), actors: listening(() => {}) },
    })
  const { images: shelf, commands: context } = compose()
  const shelves = [shelf]
  const another = (): ImageShelf => {
    const { images } = compose()
    shelves.push(images)
    return images
  }
  t.after(async () => {
    await Promise.all(shelves.map((each) => each.stop()))
    store.close()
    rmSync(directory, { recursive: true })
  })
  const fetch = async (text: string): Promise<Sha256> => {
    const content = Buffer.from(text)
    const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
    await storage.ensureImage(sha256, storage.offer(content), new AbortController().signal)
    return sha256
  }
  /** Stores a VM that uses this image, as its kernel too. */
  const make = (sha256: Sha256, id = web): void => {
    const images = (['rootfs', 'kernel'] as const).map((role) => ({
      role,
      sha256,
      source: storage.offer(Buffer.from(sha256)),
    }))
    const { network: _network, ...request } = createRequest()
    const result = createVm(context, id, { ...request, image: { ...request.image, images } })
    assert.ok(result.ok, JSON.stringify(result))
  }
  const forget = (id = web): void => {
    assert.ok(deleteVm(context, id).ok)
    store.vms.forget(id, clock.now())
  }
  /** Lets time pass, one sweep after another. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= limits.imageSweepMs) {
      clock.advance(Math.min(left, limits.imageSweepMs))
      for (let turn = 0; turn < TURNS; turn++) await setImmediate()
    }
  }
  const turns = async (): Promise<void> => {
    for (let turn = 0; turn < TURNS; turn++) await setImmediate()
  }
  const listed = async (): Promise<readonly string[]> => (await shelf.list()).map(({ sha256 }) => sha256)
  return { store, clock, storage, lines, shelf, another, fetch, make, forget, pass, listed, turns }
}

test('an image is listed with how many VMs are made of it, and when one last was', async (t) => {
  const { clock, shelf, fetch, make, forget } = stage(t)
  const sha256 = await fetch('root')
  const fetchedAtMs = clock.now()
  assert.deepEqual(await shelf.list(), [{ sha256, sizeBytes: 4, fetchedAtMs, useCount: 0 }])
  clock.advance(HOUR_MS)
  make(sha256)
  make(sha256, 'web-2' as VmId)
  const used = { sha256, sizeBytes: 4, fetchedAtMs, useCount: 2, lastUsedAtMs: clock.now() }
  assert.deepEqual(await shelf.list(), [used])
  clock.advance(HOUR_MS)
  forget()
  assert.deepEqual(await shelf.list(), [{ ...used, useCount: 1, lastUsedAtMs: clock.now() }])
})

test('an image that a VM is made of is not removed, and one that none is goes, again too', async (t) => {
  const { store, shelf, fetch, make, forget, listed, turns } = stage(t)
  const sha256 = await fetch('root')
  make(sha256)
  const refused = shelf.requestRemoval(sha256, operationId)
  assert.ok(!refused.ok && refused.error.code === 'image_in_use')
  assert.match(refused.error.detail, /in use by the VM web-1 on this host: delete it first/)
  for (const id of ['web-2', 'web-3', 'web-4', 'web-5']) make(sha256, id as VmId)
  const many = shelf.requestRemoval(sha256, operationId)
  assert.ok(!many.ok)
  assert.match(many.error.detail, /by the 5 VMs web-1, web-2, web-3 and 2 more on this host: delete them/)
  for (const id of ['web-1', 'web-2', 'web-3', 'web-4', 'web-5']) forget(id as VmId)
  for (let round = 0; round < 2; round++) {
    assert.ok(shelf.requestRemoval(sha256, operationId).ok)
    await turns()
  }
  assert.deepEqual(await listed(), [])
  assert.equal(store.images.uses().has(sha256), false)
  assert.deepEqual(store.images.removals(), [])
})

test('an image whose removal the pool holds up is shown so, and goes when the pool is back, by another daemon too', async (t) => {
  const { clock, store, storage, shelf, another, fetch, listed, turns } = stage(t)
  const sha256 = await fetch('root')
  storage.setInSight(false)
  assert.ok(shelf.requestRemoval(sha256, operationId).ok)
  await turns()
  await shelf.stop()
  storage.setInSight(true)
  assert.deepEqual(
    (await shelf.list()).map(({ isRemoving }) => isRemoving),
    [true],
  )
  storage.setInSight(false)
  await another().start()
  await turns()
  storage.setInSight(true)
  assert.equal((await listed()).length, 1)
  clock.advance(limits.retryBackoffMsMin)
  await turns()
  assert.deepEqual(await listed(), [])
  assert.deepEqual(store.images.removals(), [])
})

test('a VM that is created of an image before it is gone keeps the image, and when it was used', async (t) => {
  const { clock, store, storage, shelf, fetch, make, listed, turns } = stage(t)
  const sha256 = await fetch('root')
  storage.setInSight(false)
  assert.ok(shelf.requestRemoval(sha256, operationId).ok)
  await turns()
  make(sha256)
  storage.setInSight(true)
  clock.advance(limits.retryBackoffMsMax)
  await turns()
  assert.deepEqual(await listed(), [sha256])
  assert.deepEqual([store.images.removals(), store.images.uses().get(sha256)?.count], [[], 1])
})

test('an image that the pool keeps is asked for again, however often', async (t) => {
  const { clock, storage, shelf, fetch, listed, turns } = stage(t)
  const sha256 = await fetch('root')
  const kept = mock.method(storage, 'removeImage', async () => {})
  assert.ok(shelf.requestRemoval(sha256, operationId).ok)
  for (let round = 1; round <= 3; round += 1) {
    await turns()
    assert.equal(kept.mock.callCount(), round)
    if (round < 3) clock.advance(limits.retryBackoffMsMax)
  }
  kept.mock.restore()
  clock.advance(limits.retryBackoffMsMax)
  await turns()
  assert.deepEqual(await listed(), [])
})

test('a VM that was made while the images were listed keeps its image from the sweep', async (t) => {
  const { clock, storage, shelf, fetch, make, pass, listed, turns } = stage(t)
  const [first, second] = [await fetch('root'), await fetch('other')].toSorted()
  assert.ok(first !== undefined && second !== undefined)
  clock.advance(25 * HOUR_MS)
  await shelf.start()
  const release = storage.holdNext('removeImage')
  await pass(limits.imageSweepMs)
  make(second)
  release()
  await turns()
  assert.deepEqual(await listed(), [second])
})

test('a VM that is made while its idle image is being removed keeps it', async (t) => {
  const { clock, store, storage, shelf, fetch, make, pass, listed, lines, turns } = stage(t)
  const sha256 = await fetch('root')
  clock.advance(25 * HOUR_MS)
  await shelf.start()
  const release = storage.holdNext('removeImage')
  await pass(limits.imageSweepMs)
  make(sha256)
  release()
  await turns()
  assert.deepEqual(await listed(), [sha256])
  assert.equal(store.images.uses().get(sha256)?.lastUsedAtMs, clock.now())
  assert.ok(!lines.some(({ message }) => message === 'image removed'))
})

test('an image goes when no VM has used it for the configured time, and not before', async (t) => {
  const { shelf, fetch, make, forget, pass, listed } = stage(t)
  const used = await fetch('root')
  const unused = await fetch('other')
  make(used)
  await shelf.start()
  await pass(24 * HOUR_MS - 1)
  assert.deepEqual(await listed(), [used, unused].toSorted())
  await pass(limits.imageSweepMs)
  assert.deepEqual(await listed(), [used])
  forget()
  await pass(24 * HOUR_MS - limits.imageSweepMs)
  assert.deepEqual(await listed(), [used])
  await pass(2 * limits.imageSweepMs)
  assert.deepEqual(await listed(), [])
})

test('an image outlives the start of a daemon while the clock is ahead, if the clock is corrected soon', async (t) => {
  const { clock, shelf, fetch, pass, listed } = stage(t)
  const sha256 = await fetch('root')
  clock.set(365 * DAY_MS)
  await shelf.start()
  await pass(limits.imageHoldMs - 1)
  assert.deepEqual(await listed(), [sha256])
  clock.set(-365 * DAY_MS)
  await pass(limits.imageSweepMs)
  assert.deepEqual(await listed(), [sha256])
})

test('an image that was fetched while the clock was ahead goes after the configured time', async (t) => {
  const { clock, shelf, fetch, make, forget, pass, listed } = stage(t)
  clock.set(365 * DAY_MS)
  const sha256 = await fetch('root')
  clock.set(-365 * DAY_MS)
  await shelf.start()
  await pass(12 * HOUR_MS)
  make(sha256)
  await pass(limits.imageSweepMs)
  forget()
  await pass(24 * HOUR_MS)
  assert.deepEqual(await listed(), [sha256])
  await pass(limits.imageSweepMs)
  assert.deepEqual(await listed(), [])
})

test('with an idle time of 0 images are kept', async (t) => {
  const { shelf, fetch, pass, listed } = stage(t, { idleHours: 0 })
  const sha256 = await fetch('root')
  await shelf.start()
  await pass(HOUR_MS)
  assert.deepEqual(await listed(), [sha256])
})

test('a pool out of sight is reported, keeps its images, and is swept when it is back', async (t) => {
  const { clock, storage, shelf, fetch, pass, listed } = stage(t)
  await fetch('root')
  clock.advance(25 * HOUR_MS)
  storage.setInSight(false)
  await shelf.start()
  const isOutOfSight = (error: unknown): boolean =>
    error instanceof HostFault && error.code === 'storage_inspection_failed'
  await assert.rejects(shelf.list(), isOutOfSight)
  storage.setInSight(true)
  assert.equal((await listed()).length, 1)
  await pass(2 * limits.imageSweepMs)
  assert.deepEqual(await listed(), [])
})

for (const [what, error] of [
  ['a fault', new HostFault('storage_failed', 'on purpose')],
  ['a bug', new TypeError('on purpose')],
] as const) {
  test(`an image whose removal ends with ${what} keeps no other from going, and goes later`, async (t) => {
    const { clock, storage, shelf, fetch, pass, listed } = stage(t)
    for (const text of ['root', 'other', 'third']) await fetch(text)
    const [first] = await listed()
    clock.advance(25 * HOUR_MS)
    mock.method(storage, 'removeImage').mock.mockImplementationOnce(async () => Promise.reject(error))
    await shelf.start()
    await pass(limits.imageSweepMs)
    assert.deepEqual(await listed(), [first])
    await pass(limits.imageSweepMs)
    assert.deepEqual(await listed(), [])
  })
}

test('an image that cannot be removed keeps no other from going by request, and is asked for again', async (t) => {
  const { clock, store, storage, shelf, fetch, listed, turns } = stage(t)
  const [first, second] = [await fetch('one'), await fetch('two')].toSorted()
  assert.ok(first !== undefined && second !== undefined)
  const remove = storage.removeImage.bind(storage)
  const fails = mock.method(storage, 'removeImage', async (sha256: Sha256, mayRemove: () => boolean) => {
    if (sha256 === first) throw new HostFault('storage_failed', 'on purpose')
    return remove(sha256, mayRemove)
  })
  for (const image of [first, second]) assert.ok(shelf.requestRemoval(image, operationId).ok)
  await turns()
  assert.deepEqual(await listed(), [first])
  assert.deepEqual(store.images.removals(), [{ sha256: first, operationId }])
  fails.mock.restore()
  clock.advance(limits.retryBackoffMsMax)
  await turns()
  assert.deepEqual(await listed(), [])
})

test('what the log says of a removal has its operation, also of another daemon', async (t) => {
  const { clock, storage, lines, shelf, another, fetch, turns } = stage(t)
  const sha256 = await fetch('root')
  const fails = mock.method(storage, 'removeImage', async () => {
    throw new HostFault('storage_failed', 'on purpose')
  })
  assert.ok(shelf.requestRemoval(sha256, operationId).ok)
  await turns()
  await shelf.stop()
  fails.mock.restore()
  storage.setInSight(false)
  await another().start()
  await turns()
  storage.setInSight(true)
  clock.advance(limits.retryBackoffMsMax)
  await turns()
  const said = lines.filter(({ message }) => message.startsWith('image remov'))
  assert.deepEqual(
    said.map(({ message, operation_id, sha256: about }) => [message, operation_id, about]),
    [
      ['image removal postponed', operationId, sha256],
      ['image removal postponed', operationId, sha256],
      ['image removed', operationId, sha256],
    ],
  )
})

test('after a stop nothing is removed any more', async (t) => {
  const { clock, storage, shelf, fetch, pass, listed } = stage(t)
  for (const text of ['root', 'other']) await fetch(text)
  clock.advance(25 * HOUR_MS)
  await shelf.start()
  const release = storage.holdNext('removeImage')
  await pass(limits.imageSweepMs)
  const stopped = shelf.stop()
  release()
  await stopped
  assert.equal((await listed()).length, 1)
  await pass(2 * limits.imageSweepMs)
  assert.equal((await listed()).length, 1)
})

test('a VM that is stored while another image is being removed keeps its image', async (t) => {
  const { shelf, storage, fetch, make } = stage(t)
  // The images are sorted by digest, the order in which they are removed.
  const images = [await fetch('one'), await fetch('two')].toSorted()
  const released = storage.holdNext('removeImage')
  for (const image of images) assert.ok(shelf.requestRemoval(image, operationId).ok)
  await setImmediate()
  make(images[1] ?? assert.fail())
  released()
  for (let turn = 0; turn < TURNS; turn += 1) await setImmediate()
  assert.deepEqual(
    images.map((image) => storage.imageFiles.has(image)),
    [false, true],
  )
})

test('a VM that is stored while its image is being removed by request keeps it', async (t) => {
  const { shelf, store, storage, fetch, make, listed, turns } = stage(t)
  const sha256 = await fetch('root')
  const release = storage.holdNext('removeImage')
  assert.ok(shelf.requestRemoval(sha256, operationId).ok)
  await turns()
  make(sha256)
  release()
  await turns()
  assert.deepEqual([await listed(), store.images.removals()], [[sha256], []])
})

test('a stop waits for the removal that is under way, and begins no other', async (t) => {
  const { shelf, storage, fetch } = stage(t)
  const images = [await fetch('one'), await fetch('two')]
  const released = storage.holdNext('removeImage')
  for (const image of images) assert.ok(shelf.requestRemoval(image, operationId).ok)
  await setImmediate()
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < TURNS; turn += 1) await setImmediate()
  }
  assert.ok(!(await stopsBefore(() => shelf.stop(), { settle, end: released })))
  assert.equal(storage.imageFiles.size, 1)
})
