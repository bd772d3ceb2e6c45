import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { assertProblem, makePki, startControllerHost } from './support/controller-host.ts'
import { answersWithout } from './support/answers-without.ts'
import { eventually } from './support/eventually.ts'
import { complete, createVm, handOver, partUrl, partUrls, start, startBody } from './support/snapshots.ts'
import type { Call, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

type Finding = readonly [pointer: string, code: string, detail: RegExp]

const { upload: uploadTo } = startBody()
const FIRST = partUrl(1)

const starts: readonly (readonly [string, unknown, Finding])[] = [
  ['a list', [], ['', 'wrong_type', /must be an object/]],
  ['no VM', { upload: uploadTo }, ['/vm_id', 'missing', /is missing/]],
  ['a VM that cannot be one', { vm_id: 'WEB', upload: uploadTo }, ['/vm_id', 'malformed', /lower-case/]],
  ['no upload', { vm_id: 'web-1' }, ['/upload', 'missing', /is missing/]],
  [
    'URLs beside the upload',
    { ...startBody(), part_urls: [] },
    ['/part_urls', 'unknown_member', /not known/],
  ],
  ['no size', startBody({ part_size_mib: undefined }), ['/upload/part_size_mib', 'missing', /is missing/]],
  [
    'parts that are too small for a store',
    startBody({ part_size_mib: 4 }),
    ['/upload/part_size_mib', 'out_of_range', /between 5 and 5120/],
  ],
  ['no URLs', startBody({ part_urls: undefined }), ['/upload/part_urls', 'missing', /is missing/]],
  ['a URL alone', startBody({ part_urls: FIRST }), ['/upload/part_urls', 'wrong_type', /must be a list/]],
  [
    'a number among URLs',
    startBody({ part_urls: [FIRST, 2] }),
    ['/upload/part_urls/1', 'wrong_type', /must be a string/],
  ],
  [
    'a path for a URL',
    startBody({ part_urls: ['file:///etc/shadow'] }),
    ['/upload/part_urls/0', 'malformed', /https: or http:/],
  ],
  [
    'a URL that is none',
    startBody({ part_urls: ['https://[x'] }),
    ['/upload/part_urls/0', 'malformed', /valid URL/],
  ],
  [
    'a URL with a password',
    startBody({ part_urls: ['https://me:CANARY@bucket.example.net/'] }),
    ['/upload/part_urls/0', 'malformed', /user name or password/],
  ],
  [
    'a URL that is too long',
    startBody({ complete_url: `https://bucket.example.net/${'x'.repeat(8192)}` }),
    ['/upload/complete_url', 'wrong_length', /8192/],
  ],
  [
    'a URL that is too long in bytes',
    startBody({ head_url: `https://bucket.example.net/${'é'.repeat(5000)}` }),
    ['/upload/head_url', 'wrong_length', /8192 bytes/],
  ],
  [
    'the same URL for two parts',
    startBody({ part_urls: [FIRST, partUrl(2), FIRST] }),
    ['/upload/part_urls/2', 'not_allowed', /another part/],
  ],
  [
    'more parts than a store takes',
    startBody({ part_urls: Array.from({ length: 1001 }, (_, index) => `https://b.example/?${index}`) }),
    ['/upload/part_urls', 'wrong_length', /at most 1000 items/],
  ],
]

test('a malformed start is refused with the place of each fault', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  for (const [what, body, [pointer, code, detail]] of starts) {
    const { errors } = assertProblem(await start(host, body), 400, 'invalid_request')
    assert.deepEqual([errors[0].pointer, errors[0].code], [pointer, code], what)
    assert.match(errors[0].detail, detail)
  }
  assert.equal(host.store.snapshots.count(), 0)
})

test('URLs beyond the last part, and completions without a URL, are refused', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  await start(host)
  for (const [answer, pointer] of [
    [await handOver(host, { first_part: 0, part_urls: [] }), '/first_part'],
    [await handOver(host, { first_part: 10_000, part_urls: partUrls(2) }), '/part_urls'],
    [await handOver(host, { part_urls: partUrls(1), part_size_mib: 64 }), '/part_size_mib'],
    [await complete(host, {}), '/complete_url'],
    [await complete(host, { complete_url: 'ftp://bucket.example.net/' }), '/complete_url'],
    [await complete(host, { complete_url: 'https://me:x@bucket.example.net/' }), '/complete_url'],
    [await complete(host, { complete_url: FIRST, head_url: 'https://[x' }), '/head_url'],
    [await start(host, startBody(), 'NIGHTLY'), '/id'],
  ] as const) {
    const { errors } = assertProblem(answer, 400, 'invalid_request')
    assert.equal(errors[0].pointer, pointer)
  }
  assert.equal((await handOver(host, { first_part: 10_000, part_urls: [FIRST] })).status, 202)
})

test('at most eight findings are reported', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const bad = Array.from({ length: 20 }, (_, index) => `https://me:x@bucket.example.net/${index}`)
  const malformed = assertProblem(await start(host, startBody({ part_urls: bad })), 400, 'invalid_request')
  assert.equal(malformed.errors.length, 8)
  const inside = Array.from({ length: 20 }, (_, index) => `https://127.0.0.1/${index}`)
  const refused = assertProblem(await start(host, startBody({ part_urls: inside })), 422, 'url_not_allowed')
  assert.equal(refused.errors.length, 8)
})

test('URLs to a forbidden destination are refused with their place, and nothing is stored', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const loopback = 'https://127.0.0.1/k?X-Amz-Signature=CANARY'
  const metadata = 'https://169.254.169.254/latest?X-Amz-Signature=CANARY'
  const started = assertProblem(
    await start(host, startBody({ part_urls: [FIRST, loopback], head_url: metadata })),
    422,
    'url_not_allowed',
  )
  assert.deepEqual(
    started.errors.map(({ pointer }: { pointer: string }) => pointer),
    ['/upload/part_urls/1', '/upload/head_url'],
  )
  assert.equal(host.store.snapshots.count(), 0)
  const plain = assertProblem(
    await start(host, startBody({ complete_url: 'http://bucket.example.net/?sig=CANARY' })),
    422,
    'url_not_allowed',
  )
  assert.match(plain.errors[0].detail, /http:/)
  await start(host)
  const handed = await handOver(host, { part_urls: [FIRST, loopback] })
  assert.deepEqual(assertProblem(handed, 422, 'url_not_allowed').errors[0].pointer, '/part_urls/1')
  const ended = await complete(host, { complete_url: loopback, head_url: metadata })
  assert.deepEqual(assertProblem(ended, 422, 'url_not_allowed').errors[0].pointer, '/complete_url')
})

const CANARY = 'Canary7f3b'
const secret = (place: string): string =>
  `https://bucket.example.net/${CANARY}-path/${place}?X-Amz-Signature=${CANARY}`

test('no part of a URL but its host is in an answer or in a log line, for any request', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const path = '/v1/snapshots/nightly-1'
  const body = (changes: object = {}) =>
    startBody({
      part_urls: [secret('1'), secret('2')],
      complete_url: secret('complete'),
      head_url: secret('head'),
      ...changes,
    })
  const put = (changes: object = {}): Call => ({ method: 'PUT', path, body: body(changes) })
  const upload = (given: unknown): Call => ({ method: 'PUT', path: `${path}/upload`, body: given })
  const end = (given: unknown): Call => ({ method: 'POST', path: `${path}/complete`, body: given })
  const calls: readonly Call[] = [
    put(),
    put(),
    put({ part_size_mib: 65 }),
    put({ part_size_mib: 5000 }),
    put({ part_urls: [secret('1'), secret('1')] }),
    put({ part_urls: [`https://${CANARY}:x@h/`] }),
    put({ part_urls: [`https://127.0.0.1/${CANARY}`] }),
    put({ part_urls: [`http://h.example/?sig=${CANARY}`] }),
    put({ part_urls: `https://h/?sig=${CANARY}` }),
    put({ [`https://h/?sig=${CANARY}`]: 1 }),
    put({ [`https://h/${CANARY}/image`]: 1 }),
    { method: 'PUT', path, body: { vm_id: { [`//h/${CANARY}`]: {} } } },
    { method: 'PUT', path, body: { [`https:${CANARY}`]: { [`~${CANARY}`]: 1 } } },
    { method: 'PUT', path, body: JSON.stringify(secret('1')) },
    { method: 'PUT', path, body: [secret('1'), { [secret('2')]: secret('3') }] },
    upload([secret('3')]),
    end(JSON.stringify(secret('end'))),
    { path: `/v1/snapshots?https://h/${CANARY}=1` },
    { method: 'PUT', path, body: `{"vm_id": "https://h/?sig=${CANARY}` },
    { method: 'PUT', path, body: body(), headers: { 'if-match': `"${CANARY}"` } },
    upload({ part_urls: [secret('3')], head_url: `https://[::1]/${CANARY}` }),
    upload({ part_urls: [secret('3')] }),
    upload({ first_part: CANARY, part_urls: [] }),
    end({ complete_url: `ftp://${CANARY}` }),
    end({ complete_url: secret('end') }),
    { path },
    { path: '/v1/snapshots' },
    { path: `/v1/snapshots?cursor=${CANARY}` },
    { path: `/v1/snapshots?token=${CANARY}` },
    { method: 'DELETE', path: `${path}?sig=${CANARY}` },
    { method: 'DELETE', path },
  ]
  host.logLines.length = 0
  assert.deepEqual(await answersWithout(CANARY, host, calls), [200, 202, 204, 400, 409, 412, 422])
  await eventually(() => host.logLines.length >= calls.length)
  assert.deepEqual(
    host.logLines.filter((line) => line.includes(CANARY)),
    [],
  )
})

test('an access log line names the snapshot with its VM, a VM as one, and the operation', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  await start(host)
  await host.call({ method: 'DELETE', path: '/v1/snapshots/nightly-1' })
  type Line = {
    msg?: string
    message?: string
    route?: string
    vm_id?: string
    snapshot_id?: string
    operation_id?: string
  }
  const lines = (): Line[] => host.logLines.map((line) => JSON.parse(line) as Line)
  const about = (route: string): Line[] => lines().filter((line) => line.route === route)
  await eventually(() => about('/v1/snapshots/:id').length === 2)
  for (const line of about('/v1/snapshots/:id')) {
    assert.deepEqual([line.snapshot_id, line.vm_id], ['nightly-1', 'web-1'])
    assert.match(line.operation_id ?? '', /^op-/)
  }
  for (const line of about('/v1/vms/:id'))
    assert.deepEqual([line.snapshot_id, line.vm_id], [undefined, 'web-1'])
  assert.equal(about('/v1/vms/:id').length, 1)
})

test('a body of more than a mebibyte is refused; the most URLs of one request fit into it at 1 KiB each', async (t) => {
  const host = await startControllerHost(t, pki)
  await createVm(host)
  const long = Array.from({ length: 2000 }, (_, index) => `https://b.example/?${index}&`.padEnd(1024, 'x'))
  assertProblem(await start(host, startBody({ part_urls: long })), 413, 'body_too_large')
  const page = startBody({ part_urls: long.slice(0, limits.partUrlsMax) })
  assert.equal((await start(host, page)).status, 202)
  const more = { first_part: limits.partUrlsMax + 1, part_urls: long.slice(limits.partUrlsMax) }
  assert.equal((await handOver(host, more)).status, 202)
  assert.equal(host.store.snapshots.urlsAtHand('nightly-1' as never).parts.size, 2000)
})
