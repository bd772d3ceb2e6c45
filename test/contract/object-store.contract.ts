import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import type { ObjectStore, PartBody, PartOutcome } from '../../src/ports/object-store.ts'

/** A multipart upload, as seen by the owner of the bucket. */
export type StagedUpload = {
  readonly partUrl: (number: number) => string
  readonly completeUrl: string
  readonly headUrl: string
  /** Like `partUrl`, but the store no longer accepts the URL. */
  readonly expiredPartUrl: (number: number) => string
  readonly abort: () => Promise<void> | void
  /** Returns what another client downloads; undefined when there is no object. */
  readonly object: () => Promise<Uint8Array | undefined>
}

/** A store under test. */
export type ObjectStoreStage = {
  readonly store: ObjectStore
  readonly openUpload: () => Promise<StagedUpload> | StagedUpload
}

const never = new AbortController().signal

/** Smallest size of a part that is not the last one: 5 MiB. */
const first = randomBytes(5 * 1024 * 1024)
const second = randomBytes(1000)

const md5Of = (bytes: Uint8Array): string => createHash('md5').update(bytes).digest('hex')

/** Yields chunks of odd sizes in one buffer that is reused for each, as the port allows. */
export const bodyOf = (bytes: Uint8Array): PartBody => ({
  bytes: bytes.length,
  async *chunks(signal) {
    const buffer = Buffer.alloc(70_001)
    for (let at = 0; at < bytes.length; at += buffer.length) {
      signal.throwIfAborted()
      const chunk = bytes.subarray(at, at + buffer.length)
      buffer.set(chunk)
      yield buffer.subarray(0, chunk.length)
      buffer.fill(0)
    }
  },
})

const put = (store: ObjectStore, url: string, bytes: Uint8Array, md5 = md5Of(bytes)): Promise<PartOutcome> =>
  store.putPart({ url: new SignedUrl(url), body: bodyOf(bytes), md5 }, never)

/** Puts a part that the store must accept; returns the fields that the completion names. */
async function stored(store: ObjectStore, { partUrl }: StagedUpload, number: number, bytes: Uint8Array) {
  const outcome = await put(store, partUrl(number), bytes)
  assert.equal(outcome.kind, 'stored', JSON.stringify(outcome))
  return { number, etag: outcome.kind === 'stored' ? outcome.etag : '' }
}

/** Promises of every object store that this host can use; `set` makes a stage and registers its own clean-up. */
export function objectStoreContract(
  name: string,
  set: (t: TestContext) => Promise<ObjectStoreStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: ObjectStoreStage) => Promise<void>): void => {
    test(`${name}: ${what}`, options, async (t) => body(await set(t)))
  }

  promise('parts in any order become one object, byte for byte, once completed', async (stage) => {
    const { store, openUpload } = stage
    const upload = await openUpload()
    const parts = [await stored(store, upload, 2, second), await stored(store, upload, 1, first)].toReversed()
    assert.deepEqual(await store.head(new SignedUrl(upload.headUrl), never), { kind: 'absent' })
    assert.deepEqual(await store.complete(new SignedUrl(upload.completeUrl), parts, never), {
      kind: 'completed',
    })
    assert.deepEqual(await store.head(new SignedUrl(upload.headUrl), never), {
      kind: 'present',
      bytes: first.length + second.length,
      etag: `${createHash('md5').update(md5Of(first), 'hex').update(md5Of(second), 'hex').digest('hex')}-2`,
    })
    assert.ok(Buffer.concat([first, second]).equals((await upload.object()) ?? Buffer.alloc(0)))
  })

  promise('a part sent again replaces the earlier one', async ({ store, openUpload }) => {
    const upload = await openUpload()
    await stored(store, upload, 1, Buffer.from('the first try'))
    const part = await stored(store, upload, 1, second)
    await store.complete(new SignedUrl(upload.completeUrl), [part], never)
    assert.ok(second.equals((await upload.object()) ?? Buffer.alloc(0)))
  })

  promise(
    'a repeated completion says completed again, or that the upload is gone',
    async ({ store, openUpload }) => {
      const upload = await openUpload()
      const parts = [await stored(store, upload, 1, second)]
      await store.complete(new SignedUrl(upload.completeUrl), parts, never)
      const again = await store.complete(new SignedUrl(upload.completeUrl), parts, never)
      assert.ok(again.kind === 'completed' || again.kind === 'gone', again.kind)
      assert.deepEqual(await store.head(new SignedUrl(upload.headUrl), never), {
        kind: 'present',
        bytes: second.length,
        etag: `${createHash('md5').update(md5Of(second), 'hex').digest('hex')}-1`,
      })
    },
  )

  promise(
    'a URL that is no longer valid is expired, and a fresh one continues the upload',
    async ({ store, openUpload }) => {
      const upload = await openUpload()
      assert.equal((await put(store, upload.expiredPartUrl(1), second)).kind, 'expired')
      assert.equal((await put(store, upload.partUrl(1), second)).kind, 'stored')
    },
  )

  promise('an upload that was aborted is gone', async ({ store, openUpload }) => {
    const upload = await openUpload()
    const part = await stored(store, upload, 1, second)
    await upload.abort()
    assert.equal((await put(store, upload.partUrl(1), second)).kind, 'gone')
    assert.equal((await store.complete(new SignedUrl(upload.completeUrl), [part], never)).kind, 'gone')
    assert.deepEqual(await store.head(new SignedUrl(upload.headUrl), never), { kind: 'absent' })
  })

  promise('a body that does not match its digest is damaged, and is not stored', async (stage) => {
    const { store, openUpload } = stage
    const upload = await openUpload()
    const outcome = await put(store, upload.partUrl(1), second, md5Of(first))
    assert.equal(outcome.kind, 'damaged')
    assert.equal((await put(store, upload.partUrl(1), second)).kind, 'stored')
  })

  promise(
    'a completion with a part that was never sent, or with other content, is refused',
    async (stage) => {
      const { store, openUpload } = stage
      const upload = await openUpload()
      const part = await stored(store, upload, 1, second)
      const complete = (parts: readonly { number: number; etag: string }[]) =>
        store.complete(new SignedUrl(upload.completeUrl), parts, never)
      assert.equal((await complete([part, { number: 2, etag: md5Of(first) }])).kind, 'refused')
      assert.equal((await complete([{ number: 1, etag: md5Of(first) }])).kind, 'refused')
      assert.deepEqual(await complete([part]), { kind: 'completed' })
    },
  )

  promise('sent bytes are reported, and add up to the part', async ({ store, openUpload }) => {
    const upload = await openUpload()
    let sent = 0
    const onSent = (bytes: number): void => void (sent += bytes)
    const url = new SignedUrl(upload.partUrl(1))
    const outcome = await store.putPart({ url, body: bodyOf(first), md5: md5Of(first), onSent }, never)
    assert.equal(outcome.kind, 'stored')
    assert.equal(sent, first.length)
  })

  promise(
    'an abort ends a part with its reason, and an error thrown by the body is passed on',
    async (stage) => {
      const { store, openUpload } = stage
      const upload = await openUpload()
      const url = new SignedUrl(upload.partUrl(1))
      const reason = new Error('the snapshot is being deleted')
      const controller = new AbortController()
      const abortsHalfWay: PartBody = {
        bytes: first.length,
        async *chunks() {
          yield first.subarray(0, 100_000)
          controller.abort(reason)
          yield first.subarray(100_000)
        },
      }
      const part = { url, md5: md5Of(first) }
      await assert.rejects(store.putPart({ ...part, body: abortsHalfWay }, controller.signal), reason)
      await assert.rejects(store.putPart({ ...part, body: bodyOf(first) }, AbortSignal.abort(reason)), reason)
      const broken = new Error('reading the part')
      const breaks: PartBody = {
        bytes: first.length,
        async *chunks() {
          yield first.subarray(0, 100_000)
          throw broken
        },
      }
      await assert.rejects(store.putPart({ ...part, body: breaks }, never), broken)
      assert.equal((await put(store, upload.partUrl(1), second)).kind, 'stored')
    },
  )
}
