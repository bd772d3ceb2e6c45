import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { Clock } from '../../ports/clock.ts'
import type { PartBody, PartOutcome } from '../../ports/object-store.ts'
import { bodyOf } from '../../../test/contract/object-store.contract.ts'
import { assertNoSecret, breakStore, CANARY } from '../../../test/broken-store.ts'
import type { BrokenRequest, BrokenStore } from '../../../test/broken-store.ts'
import { FakeClock } from '../../../test/fakes/fake-clock.ts'
import { ANYWHERE } from '../../../test/fakes/outbound.ts'
import { systemClock } from '../system-clock.ts'
import { BandwidthLimit } from './transfer-limits.ts'
import { HttpObjectStore } from './http-object-store.ts'
import type { HttpObjectStoreOptions } from './http-object-store.ts'
import { Outbound } from '../outbound/outbound-request.ts'

const never = new AbortController().signal
/** More than the kernel buffers while nothing reads. */
const large = randomBytes(24 * 1024 * 1024)
const small = randomBytes(1000)
const md5Of = (bytes: Uint8Array): string => createHash('md5').update(bytes).digest('hex')

type Bounds = NonNullable<HttpObjectStoreOptions['bounds']>

function storeOf(t: TestContext, bounds: Bounds = {}, clock: Clock = systemClock): HttpObjectStore {
  const outbound = new Outbound({
    policy: { ...ANYWHERE, allowHttp: true, allowedNetworks: ['127.0.0.0/8'] },
  })
  t.after(() => outbound.close())
  return new HttpObjectStore({
    outbound,
    limit: new BandwidthLimit(0, clock),
    clock,
    bounds,
  })
}

/** Returns the outcome of a request, after checking that it contains no part of its URL. */
async function reported<Outcome>(outcome: Promise<Outcome>): Promise<Outcome> {
  const result = await outcome
  assertNoSecret(result)
  return result
}

type Behaviour = (request: BrokenRequest) => Promise<void> | void
type Attempt = { readonly outcome: PartOutcome; readonly store: BrokenStore }

/** Sends a part to a store that behaves in the given way. */
async function put(
  t: TestContext,
  behave: Behaviour,
  { bytes = small, clock, ...bounds }: Bounds & { readonly bytes?: Uint8Array; readonly clock?: Clock } = {},
): Promise<Attempt> {
  const store = await breakStore(t, behave)
  const part = { url: new SignedUrl(store.url), body: bodyOf(bytes), md5: md5Of(bytes) }
  return { outcome: await reported(storeOf(t, bounds, clock).putPart(part, never)), store }
}

const errorOf = (code: string): string => `<?xml version="1.0"?>\n<Error><Code>${code}</Code></Error>`

/** Writes a piece every few milliseconds, while the other end listens. */
function drip(socket: BrokenRequest['socket'], piece: string): void {
  const timer = setInterval(() => socket.write(piece), 5)
  socket.once('close', () => clearInterval(timer))
}

test('a part goes out with its length, its type and its digest, and is stored under its ETag', async (t) => {
  const { outcome, store } = await put(t, async ({ takeBody, answer }) => {
    await takeBody()
    answer(200, { etag: `"${md5Of(small)}"` })
  })
  assert.deepEqual(outcome, { kind: 'stored', etag: md5Of(small) })
  assert.equal(store.bodyBytes(), small.length)
  const [head = ''] = store.heads
  assert.match(head, /^PUT \/c4n4ry\/image\?partNumber=1&X-Amz-Signature=c4n4ry HTTP\/1\.1\r\n/)
  assert.match(head, /^content-length: 1000\r$/im)
  assert.match(head, /^content-type: application\/octet-stream\r$/im)
  assert.match(
    head,
    new RegExp(
      `^content-md5: ${createHash('md5').update(small).digest('base64').replaceAll('+', '\\+')}\r$`,
      'im',
    ),
  )
  assert.doesNotMatch(head, /^transfer-encoding|^authorization/im)
})

test('an ETag is compared if it is an MD5, and must be present', async (t) => {
  const answered = async (headers: Record<string, string>): Promise<PartOutcome> => {
    const { outcome } = await put(t, async ({ takeBody, answer }) => {
      await takeBody()
      answer(200, headers)
    })
    return outcome
  }
  const other = { etag: `"${md5Of(large)}"` }
  assert.equal((await answered(other)).kind, 'damaged')
  const encryption = 'x-amz-server-side-encryption'
  assert.equal((await answered({ ...other, [encryption]: 'AES256' })).kind, 'damaged')
  for (const hiding of [{ [encryption]: 'aws:kms' }, { [`${encryption}-customer-algorithm`]: 'AES256' }])
    assert.deepEqual(await answered({ ...other, ...hiding }), { kind: 'stored', etag: md5Of(large) })
  assert.equal((await answered({})).kind, 'refused')
  assert.deepEqual(await answered({ etag: `"${md5Of(large)}-1"` }), {
    kind: 'stored',
    etag: `${md5Of(large)}-1`,
  })
  assert.equal((await answered({ etag: `"${md5Of(small).toUpperCase()}"` })).kind, 'stored')
})

test('parts use one connection while it is kept', async (t) => {
  const broken = await breakStore(t, async ({ takeBody, answer }) => {
    await takeBody()
    answer(200, { etag: '"1"' })
  })
  const store = storeOf(t)
  for (let round = 0; round < 3; round++) {
    const part = { url: new SignedUrl(broken.url), body: bodyOf(small), md5: md5Of(small) }
    assert.equal((await reported(store.putPart(part, never))).kind, 'stored')
  }
  assert.equal(broken.connections(), 1)
})

test('an expired URL is answered before anything of the part is sent', async (t) => {
  let readBytes = 0
  const closed = Promise.withResolvers<void>()
  const { outcome, store } = await put(
    t,
    ({ socket, answer }) => {
      socket.on('data', (bytes) => void (readBytes += bytes.length)).resume()
      socket.once('close', () => closed.resolve())
      answer(403, {}, errorOf('AccessDenied'))
    },
    { bytes: large },
  )
  assert.deepEqual(outcome, { kind: 'expired', because: 'it answered 403 (AccessDenied)' })
  // The announced bytes were not sent, so no other request can follow on this connection.
  await closed.promise
  assert.equal(readBytes, 0)
  assert.equal(store.heads.length, 1)
})

test('a part is sent to a store that does not answer 100-continue', async (t) => {
  const { outcome } = await put(
    t,
    async ({ takeUnaskedBody, answer }) => {
      await takeUnaskedBody()
      answer(200, { etag: '"1"' })
    },
    { continueMs: 10 },
  )
  assert.equal(outcome.kind, 'stored')
})

test('a store that refuses the expectation gets the request without it', async (t) => {
  const { outcome, store } = await put(t, async ({ head, takeBody, answer, socket }) => {
    if (/^expect:/im.test(head)) {
      answer(417)
      socket.end()
      return
    }
    await takeBody()
    answer(200, { etag: '"1"' })
  })
  assert.equal(outcome.kind, 'stored')
  assert.equal(store.heads.length, 2)
  const always417 = await put(t, ({ answer }) => answer(417))
  assert.equal(always417.outcome.kind, 'refused')
})

test('an answer in the middle of the part counts, even if the connection breaks after it', async (t) => {
  for (const [status, kind] of [
    [403, 'expired'],
    [503, 'busy'],
    [404, 'gone'],
  ] as const) {
    const { outcome } = await put(
      t,
      ({ socket, answer }) => {
        socket.once('data', () => {
          answer(status, { connection: 'close' }, errorOf(status === 404 ? 'NoSuchUpload' : 'AccessDenied'))
          // Further bytes reach a closed socket, and the kernel answers them with a reset (RFC 9293, 3.10.7.1).
          socket.end(() => socket.destroy())
        })
        socket.write('HTTP/1.1 100 Continue\r\n\r\n')
        socket.resume()
      },
      { bytes: large },
    )
    assert.equal(outcome.kind, kind, JSON.stringify(outcome))
  }
})

test('a success before the store had the whole part does not count', async (t) => {
  const { outcome } = await put(
    t,
    ({ socket, answer }) => {
      socket.once('data', () => answer(200, { etag: `"${md5Of(large)}"` })).resume()
      socket.write('HTTP/1.1 100 Continue\r\n\r\n')
    },
    { bytes: large },
  )
  assert.deepEqual(outcome, { kind: 'busy', because: 'it answered before it had the whole part' })
})

test('a store that breaks off at any point is busy', async (t) => {
  const breaks: Record<string, Behaviour> = {
    'before its answer': ({ socket }) => void socket.destroy(),
    'with a reset': ({ socket }) => void socket.resetAndDestroy(),
    'in the middle of the body': ({ socket }) => {
      socket.write('HTTP/1.1 100 Continue\r\n\r\n')
      socket.once('data', () => socket.resetAndDestroy()).resume()
    },
    'in the middle of its headers': ({ socket }) => void socket.end('HTTP/1.1 200 OK\r\netag: "'),
    'after the body': async ({ takeBody, socket }) => {
      await takeBody()
      socket.destroy()
    },
  }
  for (const [when, behave] of Object.entries(breaks)) {
    const { outcome } = await put(t, behave, { bytes: large })
    assert.equal(outcome.kind, 'busy', when)
    assert.match('because' in outcome ? outcome.because : '', /\((E[A-Z]+|HPE_[A-Z_]+)\)$/, when)
  }
})

test('a store that stalls at any point is busy', async (t) => {
  const stalls: Record<string, Behaviour> = {
    'before it wants the body': ({ socket }) => void socket.resume(),
    'while it takes the body': ({ socket }) => void socket.write('HTTP/1.1 100 Continue\r\n\r\n'),
    'before its answer': ({ takeBody }) => takeBody(),
    'dripping informational answers': ({ socket }) => {
      socket.resume()
      drip(socket, 'HTTP/1.1 102 Processing\r\n\r\n')
    },
    'dripping its headers': async ({ takeBody, socket }) => {
      await takeBody()
      socket.write('HTTP/1.1 200 OK\r\netag: "')
      drip(socket, 'a')
    },
  }
  for (const [where, behave] of Object.entries(stalls)) {
    const { outcome } = await put(t, behave, { bytes: large, stallMs: 150, continueMs: 10_000 })
    assert.deepEqual(outcome, { kind: 'busy', because: 'nothing moved for longer than 0.15 s' }, where)
  }
})

test('a store that takes a part in very small pieces has stalled', async (t) => {
  const { outcome } = await put(
    t,
    ({ socket }) => {
      socket.write('HTTP/1.1 100 Continue\r\n\r\n')
      const timer = setInterval(() => socket.read(1), 5)
      socket.once('close', () => clearInterval(timer))
      socket.on('readable', () => undefined)
    },
    { bytes: large, stallMs: 200 },
  )
  assert.deepEqual(outcome, { kind: 'busy', because: 'nothing moved for longer than 0.2 s' })
})

test('a part that makes progress, but too slowly, ends at the bound of the whole', async (t) => {
  const { outcome } = await put(
    t,
    ({ socket }) => {
      socket.write('HTTP/1.1 100 Continue\r\n\r\n')
      // Some KiB each time, which is enough for the window to open now and then.
      const timer = setInterval(() => socket.read(65_536), 5)
      socket.once('close', () => clearInterval(timer))
      socket.on('readable', () => undefined)
    },
    { bytes: large, stallMs: 10_000, partMs: 200, partBytesPerSecond: Infinity },
  )
  assert.deepEqual(outcome, { kind: 'busy', because: 'it took longer than 0.2 s' })
})

test('the bound of the whole is longer for a large part', async (t) => {
  const outcomeAfter = async (elapsedMs: number): Promise<PartOutcome> => {
    const clock = new FakeClock()
    const behave: Behaviour = async ({ takeBody, answer }) => {
      await takeBody()
      clock.advance(elapsedMs)
      answer(200, { etag: `"${md5Of(small)}"` })
    }
    const bounds = { stallMs: 60_000, partMs: 1000, partBytesPerSecond: 100 }
    return (await put(t, behave, { clock, ...bounds })).outcome
  }
  assert.deepEqual(await outcomeAfter(9999), { kind: 'stored', etag: md5Of(small) })
  assert.deepEqual(await outcomeAfter(10_000), { kind: 'busy', because: 'it took longer than 10 s' })
})

test('an error whose text arrives slowly or breaks off is judged by its status', async (t) => {
  const begin = 'HTTP/1.1 403 No\r\ncontent-length: 1000000\r\n\r\n'
  const texts: Record<string, Behaviour> = {
    drips: ({ socket }) => {
      socket.write(begin)
      drip(socket, ' ')
    },
    'drips while the part still goes out': ({ socket }) => {
      socket.once('data', () => {
        socket.write(begin)
        drip(socket, ' ')
      })
      socket.resume().write('HTTP/1.1 100 Continue\r\n\r\n')
    },
    'breaks off': ({ socket }) => void socket.end(`${begin}<Error><Cod`),
  }
  for (const [what, behave] of Object.entries(texts)) {
    const { outcome } = await put(t, behave, { bytes: large, stallMs: 1000 })
    assert.deepEqual(outcome, { kind: 'expired', because: 'it answered 403' }, what)
  }
})

test('an endless error text is read only up to a bound', async (t) => {
  const clock = new FakeClock()
  const { outcome } = await put(
    t,
    ({ socket }) => {
      socket.write('HTTP/1.1 403 No\r\n\r\n')
      const more = (): void => void (socket.writable && socket.write(Buffer.alloc(65_536, ' '), more))
      more()
    },
    { clock },
  )
  assert.deepEqual(outcome, { kind: 'expired', because: 'it answered 403' })
})

test('a busy store says when to try again', async (t) => {
  const { outcome } = await put(t, ({ answer }) => answer(503, { 'retry-after': '7' }, errorOf('SlowDown')))
  assert.deepEqual(outcome, { kind: 'busy', because: 'it answered 503 (SlowDown)', retryAfterMs: 7000 })
})

test('an answer that is not HTTP, or whose headers do not end, is busy', async (t) => {
  const garbage: readonly string[] = [
    'SSH-2.0-OpenSSH_9.9\r\n',
    '\u0000\u0001\u0002\u0003\r\n\r\n',
    `HTTP/1.1 200 OK\r\n${`x-long: ${CANARY.repeat(100)}\r\n`.repeat(200)}`,
    `HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n${CANARY}`,
  ]
  for (const text of garbage) {
    const { outcome } = await put(t, ({ socket }) => void socket.write(text))
    assert.equal(outcome.kind, 'busy', JSON.stringify(outcome))
    assert.match(
      'because' in outcome ? outcome.because : '',
      /^what answers at \S+ does not speak HTTP \(HPE_[A-Z_]+\)$/,
    )
  }
})

test('an error page that quotes the request does not leak it', async (t) => {
  const pages = [`<Error><Code>${CANARY}?X-Amz-Signature=${CANARY}</Code></Error>`, `<html>${CANARY}</html>`]
  for (const page of pages) {
    const { outcome } = await put(t, ({ answer }) => answer(400, {}, page))
    assert.deepEqual(outcome, { kind: 'refused', because: 'it answered 400' })
  }
})

test('a part follows only a redirect that asks for the same request, and sends its body again', async (t) => {
  const target = await breakStore(t, async ({ takeBody, answer }) => {
    await takeBody()
    answer(200, { etag: '"1"' })
  })
  const followed = await put(t, ({ answer }) => answer(307, { location: target.url }))
  assert.equal(followed.outcome.kind, 'stored')
  assert.equal(target.bodyBytes(), small.length)
  const other = await put(t, ({ answer }) => answer(302, { location: target.url }))
  assert.deepEqual(other.outcome, { kind: 'refused', because: 'it answered 302' })
  const inside = await put(t, ({ answer }) => answer(308, { location: `http://169.254.169.254/${CANARY}` }))
  assert.equal(inside.outcome.kind, 'not_allowed')
  assert.equal(target.heads.length, 1)
})

test('an address that the policy forbids is reported as not allowed', async (t) => {
  const part = { body: bodyOf(small), md5: md5Of(small) }
  for (const url of [`https://[fe80::1]/${CANARY}`, `ftp://store.example.net/${CANARY}`, CANARY]) {
    const outcome = await reported(storeOf(t).putPart({ ...part, url: new SignedUrl(url) }, never))
    assert.equal(outcome.kind, 'not_allowed', JSON.stringify(outcome))
  }
})

test('a body whose length is wrong is a bug, and the request does not wait for its bytes', async (t) => {
  const store = storeOf(t)
  const broken = await breakStore(t, ({ takeBody }) => takeBody())
  for (const bytes of [small.length - 1, small.length + 1]) {
    const body: PartBody = { ...bodyOf(small), bytes }
    const sent = store.putPart({ url: new SignedUrl(broken.url), body, md5: md5Of(small) }, never)
    await assert.rejects(sent, (error: Error) => {
      assertNoSecret(error)
      return /a body of \d+ bytes/.test(error.message)
    })
  }
})
