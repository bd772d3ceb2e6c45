import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { assertProblem, makePki, startControllerHost } from './support/controller-host.ts'
import {
  complete,
  completeUrl,
  Course,
  createVm,
  get,
  handOver,
  NIGHTLY,
  partUrl,
  partUrls,
  remove,
  start,
  startBody,
} from './support/snapshots.ts'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import type { TestContext } from 'node:test'
import type { Answer, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** A host with a VM, and the snapshot that was just requested of it. */
async function withSnapshot(t: TestContext, changes: object = {}) {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const started = await start(host, startBody(changes))
  host.pokes.length = 0
  return { host, started, course: new Course(host) }
}

const statusesOf = (answers: readonly Answer[]): number[] =>
  answers.map(({ status }) => status).toSorted((a, b) => a - b)

/** Returns the members of a resource except times, ids of operations and revisions. */
function shown({ json }: Answer): Json {
  const {
    created_at: _,
    updated_at: __,
    last_activity_at: ___,
    operation_id: ____,
    revision: _____,
    ...rest
  } = json
  return rest
}

test('a snapshot is accepted at once, and waits for the host', async (t) => {
  const { host, started } = await withSnapshot(t)
  assert.equal(started.status, 202)
  assert.deepEqual(shown(started), {
    id: 'nightly-1',
    vm_id: 'web-1',
    status: 'pending',
    progress: { phase: 'waiting', done_mib: 0, percent: 0 },
    needs_urls: false,
    parts: { part_size_mib: 64, packed: 0, sent: 0 },
    staged_mib: 0,
  })
  assert.match(started.json.operation_id, /^op-/)
  const read = await get(host)
  assert.equal(read.status, 200)
  assert.equal(read.headers.etag, started.headers.etag)
  assert.equal(read.headers.etag, `"${read.json.revision}"`)
  assert.equal('operation_id' in read.json, false)
  assert.deepEqual(shown(read), shown(started))
})

test("the snapshot's owner is notified of changes only", async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  host.pokes.length = 0
  await start(host)
  await start(host)
  await handOver(host, { part_urls: partUrls(2) })
  await handOver(host, { part_urls: partUrls(2, { signature: 'two' }) })
  await remove(host)
  await remove(host)
  assert.deepEqual(host.pokes, [
    'snapshot nightly-1: started',
    'snapshot nightly-1: fresh URLs',
    'snapshot nightly-1: deleted',
  ])
})

test('a repeated request answers the present snapshot, and accepts fresh URLs', async (t) => {
  const { host, started } = await withSnapshot(t)
  const again = await start(host)
  assert.equal(again.status, 200)
  assert.equal(again.headers.etag, started.headers.etag)
  assert.equal('operation_id' in again.json, false)
  const fresh = await start(host, startBody({ part_urls: partUrls(2, { signature: 'two' }) }))
  assert.equal(fresh.status, 202)
  assert.notEqual(fresh.headers.etag, started.headers.etag)
})

test('one of many identical concurrent requests starts the snapshot', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const answers = await Promise.all(Array.from({ length: 20 }, () => start(host)))
  assert.deepEqual(statusesOf(answers), [...Array.from({ length: 19 }, () => 200), 202])
  assert.equal(host.store.snapshots.count(), 1)
})

test('another VM or another part size under the same id is a conflict', async (t) => {
  const { host } = await withSnapshot(t)
  await createVm(host, 'web-2')
  assertProblem(await start(host, startBody({ part_size_mib: 65 })), 409, 'conflict')
  assertProblem(await start(host, { ...startBody(), vm_id: 'web-2' }), 409, 'conflict')
})

test('a VM that is missing or under deletion is refused snapshots', async (t) => {
  const host = await startControllerHost(t, pki)
  assertProblem(await start(host), 404, 'not_found')
  await createVm(host)
  await host.call({ method: 'DELETE', path: '/v1/vms/web-1' })
  assertProblem(await start(host), 409, 'vm_deleting')
})

test('a snapshot that does not fit into staging is refused with its place', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const { errors } = assertProblem(
    await start(host, startBody({ part_size_mib: 1025 })),
    400,
    'invalid_request',
  )
  assert.equal(errors[0].pointer, '/upload/part_size_mib')
})

test('the resource shows all known facts as the snapshot progresses', async (t) => {
  const { host, course } = await withSnapshot(t)
  course.capture(300)
  course.pack(1)
  course.pack(2)
  course.pack(3, 20 * 1024 * 1024 + 1)
  course.sent(1)
  assert.deepEqual(shown(await get(host)), {
    id: 'nightly-1',
    vm_id: 'web-1',
    status: 'uploading',
    progress: { phase: 'packing', done_mib: 100, total_mib: 300, percent: 33 },
    needs_urls: true,
    lacking_urls: { parts: [3], complete: false },
    parts: { part_size_mib: 64, packed: 3, sent: 1 },
    staged_mib: 149,
    size_mib: 300,
    consistency: 'crash',
    captured_at: '1970-01-01T00:00:02.000Z',
    paused_ms: 12,
  })
  course.packed()
  await handOver(host, { first_part: 3, part_urls: [partUrl(3)] })
  course.sent(2)
  course.sent(3)
  const { json } = await get(host)
  assert.deepEqual(json.progress.phase, 'awaiting_completion')
  assert.deepEqual([json.needs_urls, json.lacking_urls], [true, { parts: [], complete: true }])
  assert.deepEqual([json.stored_size_mib, json.sha256], [149, 'f'.repeat(64)])
  await complete(host, { complete_url: completeUrl() })
  assert.equal((await get(host)).json.progress.phase, 'sending')
  course.complete()
  const { status, needs_urls, progress, parts, staged_mib } = (await get(host)).json
  assert.deepEqual(
    { status, needs_urls, progress, parts, staged_mib },
    {
      staged_mib: 149,
      status: 'completed',
      needs_urls: false,
      progress: { phase: 'completed', done_mib: 300, total_mib: 300, percent: 100 },
      parts: { part_size_mib: 64, packed: 3, sent: 3 },
    },
  )
})

test('data that is no longer staged is reported so, with another revision and no activity', async (t) => {
  const { host, course } = await withSnapshot(t)
  course.sendAll()
  course.complete()
  const { json: whole } = await get(host)
  host.store.snapshots.shed(NIGHTLY, 9000)
  const { json: gone } = await get(host)
  assert.deepEqual([whole.staged_mib, gone.staged_mib, gone.stored_size_mib], [128, 0, 128])
  assert.ok(gone.revision > whole.revision)
  assert.equal(gone.last_activity_at, whole.last_activity_at)
})

test('trouble is reported with its code and the time of the next attempt', async (t) => {
  const { host } = await withSnapshot(t)
  const trouble = {
    code: 'upload_busy',
    message: 'sending part 1: the store answered 503 SlowDown',
    sinceMs: 1000,
    attempt: 3,
    nextAttemptAtMs: 9000,
  } as const
  host.store.snapshots.advance(NIGHTLY, { trouble, nowMs: 1000 })
  const { json } = await get(host)
  assert.equal(json.error, trouble.message)
  assert.deepEqual(json.fault, {
    code: 'upload_busy',
    since: '1970-01-01T00:00:01.000Z',
    attempt: 3,
    next_attempt_at: '1970-01-01T00:00:09.000Z',
  })
})

test('URLs come in pages, from any part on, and those for sent parts change nothing', async (t) => {
  const { host, course } = await withSnapshot(t, { part_urls: [] })
  course.capture(400)
  for (const number of [1, 2, 3, 4]) course.pack(number)
  assert.deepEqual((await get(host)).json.lacking_urls.parts, [1, 2, 3, 4])
  assert.equal((await handOver(host, { first_part: 2, part_urls: partUrls(2, { first: 2 }) })).status, 202)
  assert.deepEqual((await get(host)).json.lacking_urls.parts, [1, 4])
  course.sent(2)
  const stale = { first_part: 2, part_urls: [partUrl(2, 'two')] }
  assert.equal((await handOver(host, stale)).status, 200)
})

test('if many parts lack a URL, the first hundred are named', async (t) => {
  const { host, course } = await withSnapshot(t, { part_urls: [] })
  course.capture(15_000)
  for (let number = 1; number <= 150; number += 1) course.pack(number)
  const { parts } = (await get(host)).json.lacking_urls
  assert.deepEqual([parts.length, parts.at(-1)], [100, 100])
})

test('URLs that the store no longer accepts are requested again', async (t) => {
  const { host, course } = await withSnapshot(t, { complete_url: completeUrl() })
  course.capture(200)
  course.pack(1)
  host.store.snapshots.dropUrls(NIGHTLY, 4000, 1)
  const lacking = await get(host)
  assert.deepEqual(lacking.json.lacking_urls, { parts: [1], complete: false })
  // The very same URLs were dropped, so they count as new.
  assert.equal((await handOver(host, { part_urls: partUrls(2) })).status, 202)
  assert.equal((await get(host)).json.needs_urls, false)
})

test('URLs of another upload than that of the sent parts are refused', async (t) => {
  const { host, course } = await withSnapshot(t)
  course.capture(300)
  course.pack(1)
  course.pack(2)
  const ofUpload = (id: string): string[] => partUrls(2).map((url) => `${url}&uploadId=${id}`)
  course.sent(1, new SignedUrl(ofUpload('one')[0] ?? ''))
  const two = { part_urls: ofUpload('two') }
  const { detail, errors } = assertProblem(await handOver(host, two), 409, 'upload_differs')
  assert.equal(detail, 'part_urls/1 is of another multipart upload than the parts that were sent')
  assert.equal(errors[0].pointer, '/part_urls/1')
  assertProblem(await start(host, startBody(two)), 409, 'upload_differs')
  assertProblem(await complete(host, { complete_url: completeUrl() }), 409, 'upload_differs')
  assert.equal((await handOver(host, { part_urls: ofUpload('one') })).status, 202)
})

test('a completion is safe to repeat: before all is sent, concurrently, and afterwards', async (t) => {
  const { host, course } = await withSnapshot(t)
  const body = { complete_url: completeUrl(), head_url: 'https://bucket.example.net/nightly-1?sig=head' }
  const early = await Promise.all(Array.from({ length: 10 }, () => complete(host, body)))
  assert.deepEqual(statusesOf(early), [...Array.from({ length: 9 }, () => 200), 202])
  course.sendAll()
  assert.equal((await complete(host, body)).status, 200)
  course.complete()
  const late = await Promise.all(
    Array.from({ length: 10 }, (_, index) => complete(host, { complete_url: completeUrl(`late-${index}`) })),
  )
  assert.deepEqual(new Set(statusesOf(late)), new Set([200]))
  assert.deepEqual(new Set(late.map(({ json }) => json.status)), new Set(['completed']))
  assert.equal((await start(host)).json.status, 'completed')
  assert.equal((await handOver(host, { part_urls: partUrls(9) })).status, 200)
})

test('a snapshot that failed for lack of URLs continues with fresh ones, from where it was', async (t) => {
  const { host, course } = await withSnapshot(t)
  course.capture(200)
  course.pack(1)
  course.sent(1)
  course.fail({ resumable: true })
  const failed = await get(host)
  assert.deepEqual([failed.json.status, failed.json.resumable], ['failed', true])
  assert.equal(failed.json.fault.code, 'upload_busy')
  const { status, json } = await handOver(host, { part_urls: partUrls(3, { signature: 'two' }) })
  assert.equal(status, 202)
  assert.deepEqual([json.status, json.progress.done_mib, json.error], ['uploading', 100, undefined])
})

test('a snapshot that failed for good accepts nothing, and is answered as it is', async (t) => {
  const { host, course } = await withSnapshot(t)
  course.fail({ resumable: false })
  const problem = assertProblem(await handOver(host, { part_urls: partUrls(1) }), 409, 'snapshot_failed')
  assert.match(problem.detail, /the store answered 503 SlowDown/)
  assertProblem(await complete(host, { complete_url: completeUrl() }), 409, 'snapshot_failed')
  const again = await start(host, startBody({ part_urls: partUrls(2, { signature: 'two' }) }))
  assert.equal(again.status, 200)
  assert.deepEqual([again.json.status, again.json.resumable], ['failed', false])
})

test('a missing snapshot accepts no URLs and no completion', async (t) => {
  const host = await startControllerHost(t, pki)
  assertProblem(await get(host), 404, 'not_found')
  assertProblem(await handOver(host, { part_urls: [] }), 404, 'not_found')
  assertProblem(await complete(host, { complete_url: completeUrl() }), 404, 'not_found')
})

test('a deletion is safe to repeat, even concurrently, and frees the id', async (t) => {
  const { host } = await withSnapshot(t)
  const answers = await Promise.all(Array.from({ length: 5 }, () => remove(host)))
  assert.deepEqual(new Set(statusesOf(answers)), new Set([204]))
  assert.equal(answers[0]?.text, '')
  assertProblem(await get(host), 404, 'not_found')
  assert.equal((await remove(host)).status, 204)
  assert.equal((await start(host, startBody({ part_size_mib: 16 }))).status, 202)
})

test('a change with an older revision is refused, and with the present one accepted', async (t) => {
  const { host, started } = await withSnapshot(t)
  const stale = { 'if-match': '"1"' }
  const path = '/v1/snapshots/nightly-1'
  const body = { part_urls: partUrls(2, { signature: 'two' }) }
  const calls = [
    { method: 'PUT', path, body: startBody() },
    { method: 'PUT', path: `${path}/upload`, body },
    { method: 'POST', path: `${path}/complete`, body: { complete_url: completeUrl() } },
    { method: 'DELETE', path },
  ]
  for (const call of calls) {
    const problem = assertProblem(await host.call({ ...call, headers: stale }), 412, 'precondition_failed')
    assert.match(problem.detail, /^the snapshot is at revision \d+/)
  }
  const put = { method: 'PUT', path: `${path}/upload`, body }
  const headers = { 'if-match': started.headers.etag ?? '' }
  assert.equal((await host.call({ ...put, headers })).status, 202)
  const missing = { method: 'PUT', path: '/v1/snapshots/nightly-2', body: startBody() }
  assertProblem(await host.call({ ...missing, headers: stale }), 412, 'precondition_failed')
  // It is already gone: the request is fulfilled.
  const gone = { method: 'DELETE', path: '/v1/snapshots/nightly-2' }
  assert.equal((await host.call({ ...gone, headers: stale })).status, 204)
})

test('the number of snapshots on a host is bounded', async (t) => {
  const { host } = await withSnapshot(t)
  host.store.snapshots.count = () => 10_000
  const refused = assertProblem(await start(host, startBody(), 'nightly-2'), 409, 'snapshots_full')
  assert.match(refused.detail, /delete those that have ended/)
  assert.equal((await start(host)).status, 200)
})

test('URLs are refused once this host has as many as it stores', async (t) => {
  const { host } = await withSnapshot(t)
  host.store.snapshots.urlBytes = () => 256 * 1024 * 1024
  const urls = { part_urls: partUrls(2, { signature: 'two' }) }
  const refused = assertProblem(await handOver(host, urls), 409, 'snapshots_full')
  assert.match(refused.detail, /256 MiB of URLs on record/)
  assert.equal((await complete(host, { complete_url: completeUrl() })).status, 202)
})

test('before the store is open, no request is answered or accepted', async (t) => {
  const { host } = await withSnapshot(t)
  host.storeIsOpen = false
  const answers = [get(host), start(host), handOver(host, { part_urls: [] }), remove(host)]
  for (const answer of await Promise.all(answers)) assertProblem(answer, 503, 'starting_up')
  assertProblem(await host.call({ path: '/v1/snapshots' }), 503, 'starting_up')
})

test('the log has the operation and never a URL', async (t) => {
  const { host, started } = await withSnapshot(t)
  const lines = host.logLines.map((line): Json => JSON.parse(line))
  const line = lines.find(({ operation_id }) => operation_id === started.json.operation_id)
  assert.ok(line !== undefined, host.logLines.join(''))
  assert.ok(!host.logLines.some((text) => text.includes('bucket.example.net')))
})
