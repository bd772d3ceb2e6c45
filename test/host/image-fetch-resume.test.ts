import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { test } from 'node:test'
import { errorChain } from '../../src/log/error-chain.ts'
import { limits } from '../../src/config/limits.ts'
import { content, ensure, faultOf, serve, stageOf } from './image-fetch-stage.ts'

const PIECE = 50_000
const ETAG = '"v1"'
const bounds = { resumeDelayMs: () => 1 }

/** Sends `bytes` of the content and then breaks off. */
function sendPart(response: ServerResponse, from: number, bytes: number): void {
  response.write(content.subarray(from, from + bytes), () => response.destroy())
}

const firstByteOf = (request: IncomingMessage): number =>
  Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)

type Asked = { readonly range: string | undefined; readonly ifRange: string | undefined }

/** A source that supports ranges, and the requests it got. `answer` may take a request over. */
function ranged(
  answer: (from: number, response: ServerResponse, count: number) => boolean = () => false,
  fields: Record<string, string> = { etag: ETAG },
): { readonly listener: RequestListener; readonly asked: Asked[] } {
  const asked: Asked[] = []
  const listener: RequestListener = (request, response) => {
    const from = firstByteOf(request)
    asked.push({ range: request.headers.range, ifRange: request.headers['if-range'] as string | undefined })
    for (const [name, value] of Object.entries(fields)) response.setHeader(name, value)
    response.setHeader('content-length', content.length - from)
    if (from > 0) {
      response.statusCode = 206
      response.setHeader('content-range', `bytes ${from}-${content.length - 1}/${content.length}`)
    }
    if (!answer(from, response, asked.length)) sendPart(response, from, PIECE)
  }
  return { listener, asked }
}

test(
  'a source that breaks off repeatedly is asked for the rest, and for nothing twice',
  { skip },
  async (t) => {
    const { pool, stored, temporaries } = await stageOf(t)
    const { listener, asked } = ranged()
    await ensure(pool({ bounds }), await serve(t, listener))
    assert.ok(stored().equals(content))
    assert.deepEqual(temporaries(), [])
    const starts = asked.map(({ range }) => Number(range?.slice('bytes='.length, -1) ?? 0))
    assert.ok(starts.length > 3 && starts.every((start, at) => at === 0 || start > (starts[at - 1] ?? 0)))
    assert.deepEqual(new Set(asked.slice(1).map(({ ifRange }) => ifRange)), new Set([ETAG]))
  },
)

test('a date identifies the object if there is no tag, unless it is too fresh', { skip }, async (t) => {
  for (const [date, ifRange] of [
    ['Tue, 01 Jan 2030 00:00:01 GMT', 'Tue, 01 Jan 2030 00:00:00 GMT'],
    ['Tue, 01 Jan 2030 00:00:00 GMT', undefined],
  ] as const) {
    const { pool, stored } = await stageOf(t)
    const { listener, asked } = ranged(undefined, { date, 'last-modified': 'Tue, 01 Jan 2030 00:00:00 GMT' })
    await ensure(pool({ bounds }), await serve(t, listener))
    assert.ok(stored().equals(content))
    assert.equal(asked[1]?.ifRange, ifRange)
  }
})

test('a source that is busy, hangs up or stalls in between is asked again', { skip }, async (t) => {
  const { pool, stored } = await stageOf(t)
  const { listener } = ranged((_from, response, count) => {
    response.socket?.setNoDelay()
    if (count === 2) response.writeHead(503, { 'content-length': 0 }).end()
    else if (count === 3) response.writeHead(429, { 'content-length': 0 }).end()
    else if (count === 4) response.destroy()
    return [2, 3, 4, 5].includes(count)
  })
  await ensure(pool({ bounds: { ...bounds, stallMs: 200 } }), await serve(t, listener))
  assert.ok(stored().equals(content))
})

test('a source is not asked again before the time that it names', { skip }, async (t) => {
  const { pool } = await stageOf(t)
  const waits: number[] = []
  const { listener } = ranged((_from, response, count) => {
    if (count === 2) response.writeHead(503, { 'retry-after': '7', 'content-length': 0 }).end()
    if (count === 3) response.writeHead(429, { 'retry-after': '86400', 'content-length': 0 }).end()
    return count === 2 || count === 3
  })
  const resumeDelayMs = (_failures: number, retryAfterMs: number): number => {
    waits.push(retryAfterMs)
    return 1
  }
  await ensure(pool({ bounds: { resumeDelayMs } }), await serve(t, listener))
  assert.deepEqual(waits.slice(0, 4), [0, 7000, limits.retryAfterMsMax, 0])
})

test(
  'after the bound of tries without a byte the fetch has failed, and nothing of it stays',
  { skip },
  async (t) => {
    const { pool, temporaries, images } = await stageOf(t)
    const { listener, asked } = ranged((from, response) => {
      if (from > 0) response.destroy()
      return from > 0
    })
    const fault = await faultOf(ensure(pool({ bounds }), await serve(t, listener)))
    assert.equal(fault.code, 'image_unavailable')
    assert.match(errorChain(fault), /asking 127\.0\.0\.1: .*\(ECONNRESET\)/)
    assert.equal(asked.length, 1 + limits.imageResumesMax)
    assert.deepEqual([temporaries(), images()], [[], []])
  },
)

test(
  'an object that changed meanwhile, or a source without ranges, is fetched from its start once',
  { skip },
  async (t) => {
    const whole: RequestListener = (_request, response) => response.end(content)
    const changed: RequestListener = (request, response) => {
      // Stores that do not know If-Range behave like this.
      if (firstByteOf(request) > 0)
        response.writeHead(206, { etag: '"v2"', 'content-range': `bytes 50000-50099/100` }).end()
      else response.setHeader('etag', '"v2"').end(content)
    }
    const elsewhere: RequestListener = (request, response) => {
      const from = firstByteOf(request)
      const range = `bytes ${from}-${content.length - 1}/${content.length}`
      if (from > 0)
        response.writeHead(206, { etag: '"v2"', 'content-range': range }).end(content.subarray(from))
      else response.setHeader('etag', '"v2"').end(content)
    }
    for (const then of [whole, changed, elsewhere]) {
      const { pool, stored } = await stageOf(t)
      let count = 0
      const url = await serve(t, (request, response) => {
        count += 1
        if (count > 1) then(request, response)
        else {
          response.writeHead(200, { etag: ETAG, 'content-length': content.length })
          // Content of another object, which must not get into this one.
          response.write(randomBytes(PIECE), () => response.destroy())
        }
      })
      await ensure(pool({ bounds }), url)
      assert.ok(stored().equals(content))
    }
  },
)

for (const [what, status, fields, message] of [
  ['is gone', 404, {}, /it answered 404 when asked for the rest, after the body broke off \(ECONNRESET\)$/],
  ['has an expired URL', 403, {}, /it answered 403/],
  ['knows nothing beyond', 416, { 'content-range': `bytes */${content.length}` }, /it answered 416/],
  ['does not say which part it sends', 206, {}, /without saying which part/],
  ['sends another part', 206, { 'content-range': `bytes 0-1/${content.length}` }, /another part/],
  ['encodes the rest', 206, { 'content-encoding': 'gzip' }, /encoded/],
] as const) {
  test(`a fetch fails if its source ${what} when it is asked for the rest`, { skip }, async (t) => {
    const { pool, temporaries, images } = await stageOf(t)
    const { listener, asked } = ranged((from, response) => {
      if (from === 0) return false
      for (const name of ['content-range', 'content-length']) response.removeHeader(name)
      response.writeHead(status, fields).end('x')
      return true
    })
    const fault = await faultOf(ensure(pool({ bounds }), await serve(t, listener)))
    assert.equal(fault.code, 'image_unavailable')
    assert.match(errorChain(fault), message)
    assert.equal(asked.length, 2)
    assert.deepEqual([temporaries(), images()], [[], []])
  })
}

test(
  'a fetch that waits for its next try ends at once when no caller wants it any more',
  { skip },
  async (t) => {
    const { pool, temporaries } = await stageOf(t)
    const { promise: waits, resolve } = Promise.withResolvers<void>()
    const resumeDelayMs = (): number => {
      resolve()
      return 3_600_000
    }
    const { listener } = ranged()
    const controller = new AbortController()
    const reason = new Error('the VM is being deleted')
    const url = await serve(t, listener)
    const leaving = ensure(pool({ bounds: { resumeDelayMs } }), url, { signal: controller.signal })
    leaving.catch(() => {})
    await waits
    controller.abort(reason)
    await assert.rejects(leaving, reason)
    assert.deepEqual(temporaries(), [])
  },
)
