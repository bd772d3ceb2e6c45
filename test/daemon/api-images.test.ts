import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { before, test } from 'node:test'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { until } from '../contract/until.ts'
import { limits } from '../../src/config/limits.ts'
import type { Sha256, VmId } from '../../src/core/ids.ts'
import type { Answer, ControllerHost, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const never = new AbortController().signal
const MIB = 1024 * 1024
const FETCHED = '2030-01-01T00:00:00.000Z'

async function fetch({ host: { storage } }: ControllerHost, content: Uint8Array): Promise<Sha256> {
  storage.now = () => Date.parse(FETCHED)
  const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
  await storage.ensureImage(sha256, storage.offer(content), never)
  return sha256
}

/** Creates a VM from this image. */
async function create(
  host: ControllerHost,
  id: string,
  rootfs: Sha256,
  kernel: Sha256 = rootfs,
): Promise<void> {
  const url = 'https://images.example.net/root.img?X-Amz-Signature=CANARY'
  const image = { rootfs: { url, sha256: rootfs }, kernel: { url, sha256: kernel } }
  const body = createBody({ image, network: undefined })
  const { status, text } = await host.call({ method: 'PUT', path: `/v1/vms/${id}`, body })
  assert.equal(status, 202, text)
}

const list = (host: ControllerHost, query = ''): Promise<Answer> => host.call({ path: `/v1/images${query}` })
const remove = (host: ControllerHost, sha256: string): Promise<Answer> =>
  host.call({ method: 'DELETE', path: `/v1/images/${sha256}` })
const gone = async (host: ControllerHost, sha256: string): Promise<void> => {
  await until(
    async () => digestsIn(await list(host)),
    (digests) => !digests.includes(sha256),
  )
}
const digestsIn = (answer: Answer): string[] => answer.json.items.map(({ sha256 }: Json) => sha256)

test('a pool without images has an empty list', async (t) => {
  const host = await startControllerHost(t, pki)
  const { status, json } = await list(host)
  assert.equal(status, 200)
  assert.deepEqual(json, { items: [] })
})

test('an image is listed with its size, its uses, and the time of its fetch', async (t) => {
  const host = await startControllerHost(t, pki)
  const sha256 = await fetch(host, Buffer.alloc(MIB + 1))
  const image = { sha256, size_mib: 2, use_count: 0, fetched_at: FETCHED }
  assert.deepEqual((await list(host)).json.items, [image])
  await create(host, 'web-1', sha256)
  await create(host, 'web-2', sha256)
  const [used] = (await list(host)).json.items
  const created = (await host.call({ path: '/v1/vms/web-2' })).json.created_at
  assert.deepEqual(used, { ...image, use_count: 2, last_used_at: created })
})

test('images are listed a page at a time', async (t) => {
  const host = await startControllerHost(t, pki)
  const digests: string[] = []
  for (const text of ['1', '2', '3', '4', '5']) digests.push(await fetch(host, Buffer.from(text)))
  const seen: string[] = []
  for (let query = '?limit=2'; ;) {
    const page = await list(host, query)
    seen.push(...digestsIn(page))
    if (page.json.next_cursor === undefined) break
    assert.equal(page.json.items.length, 2)
    query = `?limit=2&cursor=${page.json.next_cursor}`
  }
  assert.deepEqual(seen, digests.toSorted())
  const { next_cursor: cursor } = (await list(host, '?limit=2')).json
  await remove(host, String(digests.toSorted()[1]))
  await gone(host, String(digests.toSorted()[1]))
  assert.deepEqual(digestsIn(await list(host, `?cursor=${cursor}`)), digests.toSorted().slice(2))
  assertProblem(
    await list(host, `?cursor=${Buffer.from('vms:web-1').toString('base64url')}`),
    400,
    'invalid_request',
  )
})

test('an image that a VM is made from is refused deletion until the VM is gone', async (t) => {
  const host = await startControllerHost(t, pki)
  const [rootfs, kernel] = [await fetch(host, Buffer.from('root')), await fetch(host, Buffer.from('kernel'))]
  await create(host, 'web-1', rootfs, kernel)
  for (const sha256 of [rootfs, kernel]) {
    const { detail } = assertProblem(await remove(host, sha256), 409, 'image_in_use')
    assert.match(detail, new RegExp(`${sha256.slice(0, 8)} is in use by the VM web-1`))
  }
  await host.call({ method: 'DELETE', path: '/v1/vms/web-1' })
  assertProblem(await remove(host, rootfs), 409, 'image_in_use')
  host.store.vms.forget('web-1' as VmId, 0)
  const { status, json, headers } = await remove(host, rootfs)
  const { operation_id: operationId, ...stored } = json
  assert.match(operationId, /^op-/)
  assert.deepEqual([status, stored], [202, { sha256: rootfs, removing: true }])
  assert.equal(headers['location'], '/v1/images')
  await gone(host, rootfs)
  const again = await remove(host, rootfs)
  assert.equal(again.status, 204)
  assert.deepEqual(digestsIn(await list(host)), [kernel])
  const lines = host.logLines.map((line): Json => JSON.parse(line))
  const audited = lines.filter(({ action, code }) => action === 'deleteImage' && code === undefined)
  assert.deepEqual(
    audited.map(({ outcome, operation_id }) => [outcome, operation_id]),
    [
      ['accepted', operationId],
      ['unchanged', undefined],
    ],
  )
})

test('a repeated deletion of an image that is not gone yet changes nothing, and says so', async (t) => {
  const host = await startControllerHost(t, pki)
  const sha256 = await fetch(host, Buffer.from('root'))
  const release = host.host.storage.holdNext('removeImage')
  assert.equal((await remove(host, sha256)).status, 202)
  const again = await remove(host, sha256)
  assert.deepEqual([again.status, again.json], [200, { sha256, removing: true }])
  release()
  await gone(host, sha256)
})

test('the deletion of an image that the last look did not find answers 204, unless a VM may have brought it since', async (t) => {
  const host = await startControllerHost(t, pki)
  const late = Buffer.from('late')
  const sha256 = createHash('sha256').update(late).digest('hex') as Sha256
  assert.deepEqual(digestsIn(await list(host)), [])
  assert.equal((await remove(host, sha256)).status, 204)
  await create(host, 'web-1', sha256)
  await fetch(host, late)
  await host.call({ method: 'DELETE', path: '/v1/vms/web-1' })
  host.store.vms.forget('web-1' as VmId, 0)
  assert.equal((await remove(host, sha256)).status, 202)
  await gone(host, sha256)
})

test('an invalid digest is refused', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const sha256 of ['a', 'A'.repeat(64), 'a'.repeat(65), 'g'.repeat(64)])
    assertProblem(await remove(host, sha256), 400, 'invalid_request')
})

test('an image in a hidden pool is deleted at once, and shown as being removed until it is gone', async (t) => {
  const host = await startControllerHost(t, pki)
  const sha256 = await fetch(host, Buffer.from('root'))
  host.host.storage.setInSight(false)
  assertProblem(await list(host), 503, 'storage_inspection_failed')
  const asked = [await remove(host, sha256), await remove(host, sha256)]
  assert.deepEqual(
    asked.map(({ status }) => status),
    [202, 200],
  )
  host.host.storage.setInSight(true)
  assert.equal((await list(host)).json.items[0].removing, true)
  host.clock.advance(limits.retryBackoffMsMax)
  await gone(host, sha256)
  host.storeIsOpen = false
  assertProblem(await list(host), 503, 'starting_up')
  assertProblem(await remove(host, sha256), 503, 'starting_up')
})

test('an image is not deleted under an ETag, because it has none', async (t) => {
  const host = await startControllerHost(t, pki)
  const sha256 = await fetch(host, Buffer.alloc(1))
  const under = (tag: string) =>
    host.call({ method: 'DELETE', path: `/v1/images/${sha256}`, headers: { 'if-match': tag } })
  assertProblem(await under('"7"'), 412, 'precondition_failed')
  assert.equal((await under('*')).status, 202)
})
