import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { limits } from '../../config/limits.ts'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { CompleteOutcome, HeadOutcome } from '../../ports/object-store.ts'
import { assertNoSecret, breakStore, CANARY } from '../../../test/broken-store.ts'
import type { BrokenRequest } from '../../../test/broken-store.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { ANYWHERE } from '../../../test/fakes/outbound.ts'
import { systemClock } from '../system-clock.ts'
import { BandwidthLimit } from './transfer-limits.ts'
import { HttpObjectStore } from './http-object-store.ts'
import type { HttpObjectStoreOptions } from './http-object-store.ts'
import { Outbound } from '../outbound/outbound-request.ts'

const never = new AbortController().signal
const PARTS = [
  { number: 1, etag: 'aa' },
  { number: 2, etag: 'bb' },
]
const RESULT =
  '<CompleteMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></CompleteMultipartUploadResult>'

type Behaviour = (request: BrokenRequest) => Promise<void> | void

async function stage(t: TestContext, behave: Behaviour, options: Partial<HttpObjectStoreOptions> = {}) {
  const broken = await breakStore(t, behave)
  const outbound = new Outbound({
    policy: { ...ANYWHERE, allowHttp: true, allowedNetworks: ['127.0.0.0/8'] },
  })
  t.after(() => outbound.close())
  const limit = new BandwidthLimit(0, systemClock)
  const store = new HttpObjectStore({ outbound, limit, clock: systemClock, ...options })
  return { broken, store, url: new SignedUrl(broken.url) }
}

async function complete(
  t: TestContext,
  behave: Behaviour,
  options?: Partial<HttpObjectStoreOptions>,
): Promise<CompleteOutcome> {
  const { store, url } = await stage(t, behave, options)
  const outcome = await store.complete(url, PARTS, never)
  assertNoSecret(outcome)
  return outcome
}

/** Makes a store that takes the list of parts and then answers with the text. */
const saying =
  (body: string, status = 200): Behaviour =>
  async ({ takeBody, answer }) => {
    await takeBody()
    answer(status, {}, body)
  }

const head = async (
  t: TestContext,
  behave: Behaviour,
  options?: Partial<HttpObjectStoreOptions>,
): Promise<HeadOutcome> => {
  const { store, url } = await stage(t, behave, options)
  const outcome = await store.head(url, never)
  assertNoSecret(outcome)
  return outcome
}

const errorOf = (code: string): string => `<?xml version="1.0"?><Error><Code>${code}</Code></Error>`

test('the body of an answer decides about a completion, not its status', async (t) => {
  assert.deepEqual(await complete(t, saying(RESULT)), { kind: 'completed' })
  assert.equal((await complete(t, saying(errorOf('InternalError')))).kind, 'busy')
  assert.equal((await complete(t, saying(errorOf('NoSuchUpload')))).kind, 'gone')
  assert.equal((await complete(t, saying(errorOf('InvalidPart')))).kind, 'refused')
  assert.equal((await complete(t, saying(errorOf('SomethingNew')))).kind, 'busy')
  assert.equal((await complete(t, saying(errorOf('NoSuchUpload'), 404))).kind, 'gone')
  assert.equal((await complete(t, saying(errorOf('InvalidPartOrder'), 400))).kind, 'refused')
  assert.equal((await complete(t, saying(errorOf('AccessDenied'), 403))).kind, 'expired')
})

test('a completion whose answer has no result and no error may be repeated', async (t) => {
  for (const text of ['', '   ', `<html>${CANARY}</html>`, `{"ok":true}`, ' '.repeat(1024 * 1024)]) {
    const outcome = await complete(t, saying(text))
    assert.deepEqual(outcome, {
      kind: 'busy',
      because: 'it answered neither with a result nor with an error',
    })
  }
})

test('white space while the store works is neither an answer nor a stall', async (t) => {
  const clock = new FakeClock()
  const working: Behaviour = async ({ takeBody, socket }) => {
    await takeBody()
    const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`
    socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunk(' ')}`)
    clock.advance(limits.completeMs - 1)
    socket.write(`${chunk('\n')}${chunk(RESULT)}0\r\n\r\n`)
  }
  assert.deepEqual(await complete(t, working, { clock }), { kind: 'completed' })
})

test('a store that works without end is given up at the bound', async (t) => {
  const clock = new FakeClock()
  const working: Behaviour = async ({ takeBody }) => {
    await takeBody()
    clock.advance(limits.completeMs)
  }
  assert.deepEqual(await complete(t, working, { clock }), {
    kind: 'busy',
    because: 'it took longer than 900 s',
  })
})

test('a result that breaks off counts, and an answer that breaks off before its result does not', async (t) => {
  const breaking =
    (text: string): Behaviour =>
    async ({ takeBody, socket }) => {
      await takeBody()
      socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n${text}`)
    }
  assert.deepEqual(await complete(t, breaking(RESULT)), { kind: 'completed' })
  assert.equal((await complete(t, breaking('<?xml version="1.0"?>'))).kind, 'busy')
})

test('a completion is sent once, over a new connection', async (t) => {
  const { broken, store, url } = await stage(t, async ({ head: request, takeBody, socket }) => {
    await takeBody()
    if (request.startsWith('POST')) socket.destroy()
    else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n')
  })
  // This leaves a connection that is kept.
  assert.equal((await store.head(url, never)).kind, 'present')
  assert.equal((await store.head(url, never)).kind, 'present')
  assert.equal(broken.connections(), 1)
  assert.equal((await store.complete(url, PARTS, never)).kind, 'busy')
  assert.deepEqual([broken.connections(), broken.heads.length], [2, 3])
})

test('the ETag of an object is returned if it depends on the content', async (t) => {
  const etag = '0123456789abcdef0123456789abcdef-2'
  const says =
    (more: string): Behaviour =>
    ({ socket }) =>
      void socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 5\r\netag: "${etag}"\r\n${more}\r\n`)
  assert.deepEqual(await head(t, says('')), { kind: 'present', bytes: 5, etag })
  const encrypted = await head(t, says('x-amz-server-side-encryption: aws:kms\r\n'))
  assert.deepEqual(encrypted, { kind: 'present', bytes: 5 })
})

test('an object is present with its size, or absent', async (t) => {
  const saysLength: Behaviour = ({ socket }) =>
    void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n')
  assert.deepEqual(await head(t, saysLength), { kind: 'present', bytes: 5_000_000 })
  assert.deepEqual(await head(t, ({ answer }) => answer(404)), { kind: 'absent' })
  assert.equal((await head(t, ({ answer }) => answer(403))).kind, 'expired')
  assert.equal((await head(t, ({ answer }) => answer(500))).kind, 'busy')
  const saysNothing: Behaviour = ({ socket }) => void socket.end('HTTP/1.1 200 OK\r\n\r\n')
  assert.equal((await head(t, saysNothing)).kind, 'refused')
  assert.equal((await head(t, () => undefined, { bounds: { stallMs: 100 } })).kind, 'busy')
})
