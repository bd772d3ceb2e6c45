import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { HostFault } from '../../src/core/errors.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Storage } from '../../src/ports/storage.ts'
import { isFault, promising, sha256Of } from './storage.contract.ts'
import type { Promising, StorageStage } from './storage.contract.ts'

const id = 'web-1' as VmId
const never = new AbortController().signal
const content = Buffer.concat([randomBytes(100_000), Buffer.alloc(3_000_000), randomBytes(100_000)])
const sha256 = sha256Of(content)

/** Promises of every pool about images that come from another host, or are read for one. */
export function imageMovesContract(
  name: string,
  set: (t: TestContext) => Promise<StorageStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = promising(name, set, options)
  promiseReading(promise)
  promiseTaking(promise)
}

/** Yields the chunks; then `ends` runs, and may throw. */
async function* bodyOf(bytes: Uint8Array, ends: () => unknown = () => {}): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 70_000) yield bytes.subarray(at, at + 70_000)
  await ends()
}

/** A body that must be closed and not read. */
function unreadBody() {
  let isClosed = false
  const unwanted = {
    next: () => assert.fail('it was read'),
    return: async () => {
      isClosed = true
      return { done: true as const, value: undefined }
    },
  }
  return { body: { [Symbol.asyncIterator]: () => unwanted }, isClosed: () => isClosed }
}

async function read(storage: Storage, digest = sha256): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of storage.readImage(digest, never)) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}

const isMissing = async ({ storage }: StorageStage, digest = sha256): Promise<boolean> =>
  (await storage.inspect(id, [{ role: 'initrd', sha256: digest }])).missingImages.length === 1

function promiseReading(promise: Promising): void {
  promise(
    'an image is read as its digest says, also if it was fetched packed',
    async ({ storage, offer }) => {
      await storage.ensureImage(sha256, await offer(zstdCompressSync(content)), never)
      assert.ok(content.equals(await read(storage)))
    },
  )

  promise('an image that is missing, or out of sight, cannot be read', async (stage) => {
    const { storage, offer, setInSight } = stage
    await assert.rejects(read(storage), isFault('storage_failed'))
    await storage.ensureImage(sha256, await offer(content), never)
    await setInSight(false)
    await assert.rejects(read(storage), isFault('storage_inspection_failed'))
    const unread = unreadBody()
    await assert.rejects(
      storage.ensureImageFrom(sha256, unread.body, never),
      isFault('storage_inspection_failed'),
    )
    assert.ok(unread.isClosed())
    await setInSight(true)
  })

  promise('an aborted read ends with its reason', async ({ storage, offer }) => {
    await storage.ensureImage(sha256, await offer(content), never)
    const [controller, reason] = [new AbortController(), new Error('the line was cut')]
    const reading = async (): Promise<void> => {
      for await (const _chunk of storage.readImage(sha256, controller.signal)) controller.abort(reason)
    }
    await assert.rejects(reading(), reason)
    await storage.removeImage(sha256, () => true)
    await assert.rejects(read(storage), isFault('storage_failed'))
  })
}

function promiseTaking(promise: Promising): void {
  promise('an image comes from another pool as it is there, packed or not', async (stage) => {
    const packed = zstdCompressSync(content)
    for (const bytes of [content, packed]) {
      const digest = sha256Of(bytes)
      assert.ok(await isMissing(stage, digest))
      await stage.storage.ensureImageFrom(digest, bodyOf(bytes), never)
      assert.ok(bytes.equals(await read(stage.storage, digest)))
    }
  })

  promise('an image that is there already is not read again, and its source is closed', async (stage) => {
    await stage.storage.ensureImageFrom(sha256, bodyOf(content), never)
    const unread = unreadBody()
    await stage.storage.ensureImageFrom(sha256, unread.body, never)
    assert.ok(unread.isClosed())
  })

  promise('many callers that bring one image at once all have it', async ({ storage }) => {
    await Promise.all(
      Array.from({ length: 8 }, () => storage.ensureImageFrom(sha256, bodyOf(content), never)),
    )
    assert.ok(content.equals(await read(storage)))
  })

  promise('an image that is altered, cut short or too long never enters the pool', async (stage) => {
    const take = (body: AsyncIterable<Uint8Array>, bytesMax = content.length) =>
      stage.storage.ensureImageFrom(sha256, body, never, { bytesMax, excess: 'image_too_large' })
    const altered = Buffer.from(content).fill(7, 150_000, 150_001)
    await assert.rejects(take(bodyOf(altered)), isFault('image_integrity_failed'))
    await assert.rejects(take(bodyOf(content.subarray(1))), isFault('image_integrity_failed'))
    await assert.rejects(take(bodyOf(new Uint8Array())), isFault('image_integrity_failed'))
    const cut = bodyOf(content.subarray(0, 200_000), () => {
      throw new HostFault('image_unavailable', 'the line was cut')
    })
    await assert.rejects(take(cut), isFault('image_unavailable'))
    await assert.rejects(take(bodyOf(content), content.length - 1), isFault('image_too_large'))
    assert.ok(await isMissing(stage))
    await take(bodyOf(content))
    assert.ok(content.equals(await read(stage.storage)))
  })

  promise('an aborted call ends at once, also while nothing comes', async (stage) => {
    const [controller, reason] = [new AbortController(), new Error('the VM is being deleted')]
    const silent = bodyOf(
      content.subarray(0, 1000),
      () => new Promise(() => setTimeout(() => controller.abort(reason))),
    )
    await assert.rejects(stage.storage.ensureImageFrom(sha256, silent, controller.signal), reason)
    assert.ok(await isMissing(stage))
    await stage.storage.ensureImageFrom(sha256, bodyOf(content), never)
  })
}
