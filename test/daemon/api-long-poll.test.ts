import assert from 'node:assert/strict'
import { before, mock, test } from 'node:test'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { eventually } from './support/eventually.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Answer, ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const path = '/v1/vms/web-1'

async function withVm(t: Parameters<typeof startControllerHost>[0]) {
  const host = await startControllerHost(t, pki)
  const { headers } = await host.call({ method: 'PUT', path, body: createBody() })
  return { host, etag: headers.etag ?? '' }
}

/** Starts a long poll, and waits until the server holds it. */
async function held(host: ControllerHost, etag: string, seconds = 60): Promise<{ answer: Promise<Answer> }> {
  const waiting = host.waits.size
  const answer = host.call({ path, headers: { 'if-none-match': etag, prefer: `wait=${seconds}` } })
  await eventually(() => host.waits.size === waiting + 1)
  return { answer }
}

test('a long poll is answered as soon as the VM changes', async (t) => {
  const { host, etag } = await withVm(t)
  const { answer } = await held(host, etag)
  await host.call({ method: 'PUT', path: `${path}/power`, body: { state: 'paused' } })
  const { status, headers, json } = await answer
  assert.equal(status, 200)
  assert.equal(json.desired.power, 'paused')
  assert.notEqual(headers.etag, etag)
  assert.equal(headers['preference-applied'], 'wait=60')
  assert.equal(host.waits.size, 0)
})

test('a long poll notices a change that only the host made', async (t) => {
  const { host, etag } = await withVm(t)
  const { answer } = await held(host, etag)
  host.store.vms.recordProgress('web-1' as VmId, { observed: { state: 'starting', sinceMs: 1 }, nowMs: 1 })
  assert.equal((await answer).json.observed.state, 'starting')
})

test('a long poll over a VM that goes is answered with 404', async (t) => {
  const { host, etag } = await withVm(t)
  await host.call({ method: 'DELETE', path })
  const { headers } = await host.call({ path })
  const { answer } = await held(host, headers.etag ?? etag)
  host.store.vms.forget('web-1' as VmId, 0)
  assertProblem(await answer, 404, 'not_found')
})

test('a long poll without a change ends with 304 when its time is up', async (t) => {
  const { host, etag } = await withVm(t)
  const { status, headers } = await host.call({ path, headers: { 'if-none-match': etag, prefer: 'wait=1' } })
  assert.equal(status, 304)
  assert.equal(headers.etag, etag)
  assert.equal(host.waits.size, 0)
})

test('a client with an older revision does not wait', async (t) => {
  const { host } = await withVm(t)
  const { status } = await host.call({ path, headers: { 'if-none-match': '"0"', prefer: 'wait=60' } })
  assert.equal(status, 200)
})

test('without a preference to wait, a known revision is 304 at once', async (t) => {
  const { host, etag } = await withVm(t)
  for (const tag of [etag, `W/${etag}`, `"0", ${etag}`, '*']) {
    assert.equal((await host.call({ path, headers: { 'if-none-match': tag } })).status, 304, tag)
  }
})

test('the VM in an answer has the revision of its ETag, also if it changes before the answer is sent', async (t) => {
  const { host } = await withVm(t)
  const flushed = host.store.flushed.bind(host.store)
  let sinceMs = 0
  mock.method(host.store, 'flushed', async () => {
    sinceMs += 1
    host.store.vms.recordProgress('web-1' as VmId, { observed: { state: 'starting', sinceMs }, nowMs: 1 })
    await flushed()
  })
  const answers = [await host.call({ path }), await host.call({ path })]
  assert.deepEqual(
    answers.map(({ headers }) => headers.etag),
    answers.map(({ json }) => `"${json.revision}"`),
  )
  assert.notEqual(answers[0]?.headers.etag, answers[1]?.headers.etag)
})

test('a change of another VM wakes no long poll', async (t) => {
  const { host, etag } = await withVm(t)
  const { answer } = await held(host, etag)
  await host.call({ method: 'PUT', path: '/v1/vms/web-2', body: createBody({ network: undefined }) })
  assert.equal(host.waits.size, 1)
  await host.call({ method: 'DELETE', path })
  await answer
})

test('a client that goes away leaves nothing behind', async (t) => {
  const { host, etag } = await withVm(t)
  const abort = new AbortController()
  const { certificate: cert, key } = pki.controller
  const gone = host.call({
    path,
    headers: { 'if-none-match': etag, prefer: 'wait=60' },
    client: { ca: pki.authority.certificate, cert, key, signal: abort.signal },
  })
  const rejected = assert.rejects(gone)
  await eventually(() => host.waits.size === 1)
  abort.abort()
  await rejected
  await eventually(() => host.waits.size === 0)
})

test('a daemon that stops answers its waiting clients at once, and ends the connections that they would keep', async (t) => {
  const { host, etag } = await withVm(t)
  const { answer } = await held(host, etag)
  await host.close(60_000)
  const { status, headers } = await answer
  assert.deepEqual([status, headers.connection], [304, 'close'])
})

test('500 concurrent long polls are one subscription, and one change answers all of them', async (t) => {
  const { host, etag } = await withVm(t)
  const answers = Array.from({ length: 500 }, () =>
    host.call({ path, headers: { 'if-none-match': etag, prefer: 'wait=60' } }),
  )
  await eventually(() => host.waits.size === 500)
  await host.call({ method: 'PUT', path: `${path}/power`, body: { state: 'stopped' } })
  const statuses = new Set((await Promise.all(answers)).map(({ status }) => status))
  assert.deepEqual([...statuses], [200])
})
