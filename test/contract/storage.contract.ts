import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { ImageSource } from '../../src/core/outbound/image-source.ts'
import type { Sha256, UserId, VmId } from '../../src/core/ids.ts'
import type { ImageRef, Storage } from '../../src/ports/storage.ts'
import { markOfTests } from '../record.ts'

/** A pool under test, and its surroundings. */
export type StorageStage = {
  readonly storage: Storage
  /** User that must own the disks. */
  readonly userId: UserId
  /** Puts an image where the pool may fetch it from. */
  readonly offer: (content: Uint8Array) => Promise<ImageSource> | ImageSource
  /** Hides the pool, as an unmount does, or brings it back. */
  readonly setInSight: (inSight: boolean) => Promise<void> | void
}

const MIB = 1024 * 1024
const id = 'web-1' as VmId
const other = 'web-2' as VmId
const never = new AbortController().signal
const always = (): boolean => true

export const sha256Of = (content: Uint8Array): Sha256 =>
  createHash('sha256').update(content).digest('hex') as Sha256
export const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code
const seedOf = (text: string) => ({
  digest: sha256Of(Buffer.from(text)),
  files: [
    { name: 'meta-data', content: `instance-id: "${text}"\n` },
    { name: 'user-data', content: '#cloud-config\n' },
  ],
})

/** Declares one promise of a pool: a test that gets a stage of its own. */
export type Promising = (what: string, body: (stage: StorageStage) => Promise<void>) => void

/** Returns what declares the promises of a pool of this name; `set` makes a stage and registers its own clean-up. */
export const promising =
  (
    name: string,
    set: (t: TestContext) => Promise<StorageStage>,
    options: { readonly skip?: string | false },
  ): Promising =>
  (what, body) =>
    void test(`${name}: ${what}`, options, async (t) => body(await set(t)))

/** Promises of every pool; `set` makes a stage and registers its own clean-up. */
export function storageContract(
  name: string,
  set: (t: TestContext) => Promise<StorageStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = promising(name, set, options)
  promiseImages(promise)
  promiseListOfImages(promise)
  promiseDisks(promise)
  promiseOwners(promise)
  promiseSeeds(promise)
  promiseTheWhole(promise)
}

async function sizeMibOf(storage: Storage): Promise<number | undefined> {
  const { disk } = await storage.inspect(id, [])
  return disk.kind === 'present' ? disk.sizeMib : undefined
}

/** An image of somewhat more than 1 MiB in the pool. */
export async function rootfsIn({ storage, offer }: StorageStage): Promise<Sha256> {
  const content = Buffer.concat([Buffer.alloc(MIB), randomBytes(1000)])
  const sha256 = sha256Of(content)
  await storage.ensureImage(sha256, await offer(content), never)
  return sha256
}

function promiseImages(promise: Promising): void {
  const content = randomBytes(100_000)
  const sha256 = sha256Of(content)
  const kernel: ImageRef = { role: 'kernel', sha256 }

  promise('an image is missing until it is fetched, and fetching it again does nothing', async (stage) => {
    const { storage, offer } = stage
    const source = await offer(content)
    assert.deepEqual((await storage.inspect(id, [kernel])).missingImages, ['kernel'])
    await storage.ensureImage(sha256, source, never)
    assert.deepEqual((await storage.inspect(id, [kernel])).missingImages, [])
    await storage.ensureImage(sha256, source, never)
    assert.deepEqual((await storage.inspect(id, [kernel])).missingImages, [])
  })

  promise('many callers that ask for an image at once all get it', async ({ storage, offer }) => {
    const source = await offer(content)
    await Promise.all(Array.from({ length: 8 }, () => storage.ensureImage(sha256, source, never)))
    assert.deepEqual((await storage.inspect(id, [kernel])).missingImages, [])
  })

  promise('content that does not match its digest never enters the pool', async ({ storage, offer }) => {
    const wrong = sha256Of(Buffer.from('another'))
    const source = await offer(content)
    await assert.rejects(storage.ensureImage(wrong, source, never), isFault('image_integrity_failed'))
    const state = await storage.inspect(id, [{ role: 'kernel', sha256: wrong }])
    assert.deepEqual(state.missingImages, ['kernel'])
  })

  promise(
    'an aborted fetch rejects with the reason and leaves the image missing',
    async ({ storage, offer }) => {
      const reason = new Error('the VM is being deleted')
      const source = await offer(content)
      await assert.rejects(storage.ensureImage(sha256, source, AbortSignal.abort(reason)), reason)
      assert.deepEqual((await storage.inspect(id, [kernel])).missingImages, ['kernel'])
    },
  )
}

function promiseListOfImages(promise: Promising): void {
  promise('a compressed source gives the image that was compressed', async ({ storage, offer }) => {
    const content = Buffer.concat([Buffer.alloc(MIB), randomBytes(1000)])
    const sha256 = sha256Of(content)
    const source = await offer(zstdCompressSync(content))
    const broken = await offer(zstdCompressSync(content).subarray(0, -1))
    await assert.rejects(storage.ensureImage(sha256, broken, never), isFault('image_integrity_failed'))
    assert.deepEqual(await storage.images(), [])
    await storage.ensureImage(sha256, source, never)
    const sizes = (await storage.images()).map((image) => [image.sha256, image.sizeBytes])
    assert.deepEqual(sizes, [[sha256, content.length]])
  })

  promise('images are listed in the order of their digests, each with its size', async (stage) => {
    const { storage, offer } = stage
    assert.deepEqual(await storage.images(), [])
    const contents = [randomBytes(10), randomBytes(2000), randomBytes(300)]
    for (const content of contents) await storage.ensureImage(sha256Of(content), await offer(content), never)
    const listed = await storage.images()
    assert.deepEqual(
      listed.map(({ sha256, sizeBytes }) => [sha256, sizeBytes]),
      contents
        .map((content) => [sha256Of(content), content.length])
        .toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)),
    )
    for (const { fetchedAtMs } of listed) assert.ok(Number.isInteger(fetchedAtMs))
  })

  promise(
    'a removed image is gone, removal can be repeated, and the image can be fetched again',
    async (stage) => {
      const { storage, offer } = stage
      const [content, kept] = [randomBytes(1000), randomBytes(1000)]
      const sha256 = sha256Of(content)
      for (const image of [content, kept])
        await storage.ensureImage(sha256Of(image), await offer(image), never)
      for (let round = 0; round < 2; round++) {
        await storage.removeImage(sha256, always)
        assert.deepEqual(
          (await storage.images()).map((image) => image.sha256),
          [sha256Of(kept)],
        )
      }
      await storage.ensureImage(sha256, await offer(content), never)
      assert.equal((await storage.images()).length, 2)
    },
  )

  promise('an image that has a use again when it is its turn is left', async (stage) => {
    const { storage, offer } = stage
    const content = randomBytes(1000)
    const sha256 = sha256Of(content)
    await storage.ensureImage(sha256, await offer(content), never)
    let mayGo = true
    const removed = storage.removeImage(sha256, () => mayGo)
    mayGo = false
    assert.equal(await removed, false)
    assert.equal((await storage.images()).length, 1)
    assert.equal(await storage.removeImage(sha256, always), true)
    assert.deepEqual(await storage.images(), [])
  })

  promise('a disk outlives the image that it was made from', async (stage) => {
    const { storage, userId } = stage
    const rootfsSha256 = await rootfsIn(stage)
    await storage.ensureDisk({ id, userId, sizeMib: 5, rootfsSha256, mark: markOfTests }, never)
    await storage.removeImage(rootfsSha256, always)
    assert.equal(await sizeMibOf(storage), 5)
  })
}

function promiseDisks(promise: Promising): void {
  promise('a disk has the requested size, however often it is requested', async (stage) => {
    const { storage, userId } = stage
    const rootfsSha256 = await rootfsIn(stage)
    for (let round = 0; round < 2; round++) {
      await storage.ensureDisk({ id, userId, sizeMib: 5, rootfsSha256, mark: markOfTests }, never)
      assert.equal(await sizeMibOf(storage), 5)
    }
    assert.deepEqual((await storage.inspect(other, [])).disk, { kind: 'absent' })
  })

  promise('a disk grows and never shrinks', async (stage) => {
    const { storage, userId } = stage
    const rootfsSha256 = await rootfsIn(stage)
    for (const [asked, size] of [
      [5, 5],
      [9, 9],
      [4, 9],
    ] as const) {
      await storage.ensureDisk({ id, userId, sizeMib: asked, rootfsSha256, mark: markOfTests }, never)
      assert.equal(await sizeMibOf(storage), size)
    }
  })

  promise('a disk smaller than its image is not made', async (stage) => {
    const { storage, userId } = stage
    const rootfsSha256 = await rootfsIn(stage)
    const disk = { id, userId, sizeMib: 1, rootfsSha256, mark: markOfTests }
    await assert.rejects(storage.ensureDisk(disk, never), isFault('disk_smaller_than_image'))
    assert.deepEqual((await storage.inspect(id, [])).disk, { kind: 'absent' })
  })

  promise('a disk without its image is a fault', async ({ storage, userId }) => {
    const disk = { id, userId, sizeMib: 1, rootfsSha256: sha256Of(Buffer.from('missing')), mark: markOfTests }
    await assert.rejects(storage.ensureDisk(disk, never), isFault('storage_failed'))
  })

  promise('an aborted disk rejects with the reason and is not made', async (stage) => {
    const { storage, userId } = stage
    const rootfsSha256 = await rootfsIn(stage)
    const reason = new Error('the VM is being deleted')
    const disk = { id, userId, sizeMib: 5, rootfsSha256, mark: markOfTests }
    await assert.rejects(storage.ensureDisk(disk, AbortSignal.abort(reason)), reason)
    assert.deepEqual((await storage.inspect(id, [])).disk, { kind: 'absent' })
  })
}

function promiseOwners(promise: Promising): void {
  promise('a disk records its VM, the image it was made from, and its user', async (stage) => {
    const { storage, userId } = stage
    const rootfsSha256 = await rootfsIn(stage)
    await storage.ensureDisk({ id, userId, sizeMib: 5, rootfsSha256, mark: markOfTests }, never)
    assert.deepEqual((await storage.inspect(id, [])).disk, {
      kind: 'present',
      sizeMib: 5,
      note: { mark: markOfTests, rootfsSha256 },
      usableBy: userId,
    })
  })

  promise('the disk of another VM with that id is neither taken nor changed', async (stage) => {
    const { storage, userId } = stage
    const rootfsSha256 = await rootfsIn(stage)
    const disk = { id, userId, sizeMib: 5, rootfsSha256, mark: markOfTests }
    await storage.ensureDisk(disk, never)
    const before = await storage.inspect(id, [])
    for (const mark of [
      { ...markOfTests, createdAtMs: 2000 },
      { ...markOfTests, storeId: 'store-2' },
    ]) {
      const taking = storage.ensureDisk({ ...disk, sizeMib: 9, mark, adopts: true }, never)
      await assert.rejects(taking, isFault('disk_foreign'))
    }
    assert.deepEqual(await storage.inspect(id, []), before)
  })
}

function promiseSeeds(promise: Promising): void {
  promise('a seed disk is known by its digest and is replaced by another', async ({ storage, userId }) => {
    assert.deepEqual((await storage.inspect(id, [])).seed, { kind: 'absent' })
    for (const text of ['one', 'one', 'two', 'one']) {
      const seed = seedOf(text)
      await storage.ensureSeed(id, userId, seed)
      const expected = { kind: 'present', digest: seed.digest, usableBy: userId }
      assert.deepEqual((await storage.inspect(id, [])).seed, expected)
    }
    assert.deepEqual((await storage.inspect(other, [])).seed, { kind: 'absent' })
  })
}

function promiseTheWhole(promise: Promising): void {
  promise(
    'removal takes disk and seed of one VM, leaves images and other VMs, and can be repeated',
    async (stage) => {
      const { storage, userId } = stage
      const rootfsSha256 = await rootfsIn(stage)
      const images: ImageRef[] = [{ role: 'rootfs', sha256: rootfsSha256 }]
      for (const vm of [id, other]) {
        await storage.ensureDisk({ id: vm, userId, sizeMib: 2, rootfsSha256, mark: markOfTests }, never)
        await storage.ensureSeed(vm, userId, seedOf('one'))
      }
      assert.deepEqual((await storage.list()).toSorted(), [id, other])
      for (let round = 0; round < 2; round++) {
        await storage.remove(id)
        const gone = await storage.inspect(id, images)
        assert.deepEqual(gone, {
          disk: { kind: 'absent' },
          seed: { kind: 'absent' },
          missingImages: [],
          unfitImages: [],
        })
        assert.deepEqual(await storage.list(), [other])
      }
      assert.equal((await storage.inspect(other, images)).disk.kind, 'present')
    },
  )

  promise('a hidden pool is unknown, never empty, and is as before when it is back', async (stage) => {
    const { storage, userId, setInSight } = stage
    const rootfsSha256 = await rootfsIn(stage)
    const disk = { id, userId, sizeMib: 2, rootfsSha256, mark: markOfTests }
    await storage.ensureDisk(disk, never)
    await setInSight(false)
    const unknown = isFault('storage_inspection_failed')
    await assert.rejects(storage.inspect(id, []), unknown)
    await assert.rejects(storage.list(), unknown)
    await assert.rejects(storage.images(), unknown)
    await assert.rejects(storage.removeImage(rootfsSha256, always), unknown)
    await assert.rejects(storage.ensureDisk(disk, never), unknown)
    await assert.rejects(storage.ensureSeed(id, userId, seedOf('one')), unknown)
    await assert.rejects(storage.remove(id), unknown)
    await setInSight(true)
    assert.equal(await sizeMibOf(storage), 2)
  })

  promise('each VM has paths of its own, and shares its images', async ({ storage }) => {
    const [one, two] = [sha256Of(Buffer.from('1')), sha256Of(Buffer.from('2'))]
    const images: ImageRef[] = [
      { role: 'kernel', sha256: one },
      { role: 'initrd', sha256: two },
    ]
    const [mine, theirs] = [storage.files(id, images), storage.files(other, images.slice(0, 1))]
    assert.equal(mine.kernel, theirs.kernel)
    assert.ok(mine.initrd !== undefined && mine.initrd !== mine.kernel)
    assert.equal(theirs.initrd, undefined)
    assert.equal(new Set([mine.disk, mine.seed, theirs.disk, theirs.seed]).size, 4)
  })
}
