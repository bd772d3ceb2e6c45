import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { getEventListeners } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import type { Sha256 } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { ANYWHERE } from '../fakes/outbound.ts'
import { until } from '../contract/until.ts'
import {
  content,
  ensure,
  faultOf,
  never,
  outboundOf,
  SECRET,
  send,
  serve,
  sha256,
  stageOf,
} from './image-fetch-stage.ts'

/** Bounds that end a fetch in a test: on its silence, and on all of it. Elsewhere they are far away. */
const BOUNDS_MS: Readonly<Record<string, readonly [stallMs: number, totalMs: number]>> = {
  'never answers': [200, 60_000],
  'stalls in the body, each time': [200, 60_000],
  drips: [60_000, 500],
}

for (const [what, answer, code, message] of [
  [
    'answers 404',
    (_, response) => response.writeHead(404).end('gone'),
    'image_unavailable',
    /127\.0\.0\.1: it answered 404$/,
  ],
  ['answers 403', (_, response) => response.writeHead(403).end(), 'image_unavailable', /it answered 403$/],
  [
    'answers with a part',
    (_, response) => response.writeHead(206).end(content),
    'image_unavailable',
    /it answered 206$/,
  ],
  [
    'sends another image',
    (_, response) => response.end('another'),
    'image_integrity_failed',
    /: the image has the SHA-256 [0-9a-f]{64}, not the [0-9a-f]{64} that was asked for$/,
  ],
  [
    'promises more than it sends, each time',
    promiseLength(content.length + 1),
    'image_unavailable',
    /from the beginning again, although asked for the rest, after the body broke off \(ECONNRESET\)$/,
  ],
  ['promises less than it sends', promiseLength(content.length - 1), 'image_integrity_failed', /SHA-256/],
  [
    'hangs up before it answers',
    (request) => request.socket.destroy(),
    'image_unavailable',
    / closed the connection \(ECONNRESET\)$/,
  ],
  [
    'does not speak HTTP',
    (request) => request.socket.end('SSH-2.0\r\n\r\n'),
    'image_unavailable',
    / does not speak HTTP \(HPE_INVALID/,
  ],
  [
    'encodes the body',
    (_, response) => response.setHeader('content-encoding', 'gzip').end('x'),
    'image_unavailable',
    /encoded/,
  ],
  ['never answers', () => {}, 'image_unavailable', /nothing came for 0\.2 s$/],
  [
    'stalls in the body, each time',
    (_, response) => response.write(content.subarray(0, 1000)),
    'image_unavailable',
    /from the beginning again, although asked for the rest, after nothing came for 0\.2 s$/,
  ],
  [
    'declares a size past the bound',
    (_, response) => response.setHeader('content-length', 5e6).end(),
    'image_too_large',
    /more than the 1 MiB/,
  ],
  ['sends without end', sendForEver, 'image_too_large', /more than the 1 MiB/],
  ['drips', drip, 'image_unavailable', /less than 0\.5 MiB came in 0\.5 s$/],
  [
    'redirects in a circle',
    (request, response) => response.writeHead(302, { location: request.url ?? '' }).end(),
    'image_unavailable',
    /more than 5 times$/,
  ],
  [
    'redirects to a file',
    (_, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
    'image_source_refused',
    /redirects/,
  ],
] as const satisfies readonly (readonly [string, RequestListener, string, RegExp])[]) {
  test(`a source that ${what} is ${code}, and nothing of it stays`, { skip }, async (t) => {
    const { pool, temporaries, directory } = await stageOf(t)
    const server = createHttpServer()
    const url = await serve(t, answer, server)
    const [stallMs, totalMs] = BOUNDS_MS[what] ?? [60_000, 60_000]
    const bounds = { bytesMax: 1024 * 1024, stallMs, totalMs, resumeDelayMs: () => 1 }
    const fault = await faultOf(ensure(pool({ bounds }), url))
    assert.equal(fault.code, code, errorChain(fault))
    assert.match(errorChain(fault), message)
    assert.deepEqual([temporaries(), readdirSync(join(directory, 'images'))], [[], []])
    const connections = promisify(server.getConnections.bind(server))
    await until(connections, (count) => count === 0)
  })
}

function promiseLength(bytes: number): RequestListener {
  return (request) => {
    request.socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\nConnection: close\r\n\r\n`)
    request.socket.end(content)
  }
}

function sendForEver(_request: IncomingMessage, response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * 1024)
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  }
  response.on('drain', more)
  more()
}

function drip(_request: IncomingMessage, response: ServerResponse): void {
  const timer = setInterval(() => response.write('x'), 50)
  response.on('close', () => clearInterval(timer))
}

test(
  'an image can come with or without a declared length, and every user can read it',
  { skip },
  async (t) => {
    for (const answer of [
      send,
      (_request: IncomingMessage, response: ServerResponse) => {
        response.write(content.subarray(0, 1))
        response.end(content.subarray(1))
      },
    ]) {
      const { pool, stored, temporaries } = await stageOf(t)
      await ensure(pool(), await serve(t, answer))
      assert.ok(stored().equals(content))
      assert.deepEqual(temporaries(), [])
    }
  },
)

test('a redirect is followed', { skip }, async (t) => {
  const { pool, stored } = await stageOf(t)
  const url = await serve(t, (request, response) => {
    if (request.url === '/moved') send(request, response)
    else response.writeHead(307, { location: '/moved' }).end()
  })
  await ensure(pool(), url)
  assert.ok(stored().equals(content))
})

test('http: is refused unless it is configured, before anything is sent', { skip }, async (t) => {
  const { pool } = await stageOf(t)
  let asked = 0
  const url = await serve(t, () => asked++)
  const outbound = outboundOf(t, { policy: { ...ANYWHERE, allowedNetworks: ['127.0.0.1/32'] } })
  assert.equal((await faultOf(ensure(pool({ outbound }), url))).code, 'image_source_refused')
  assert.equal(asked, 0)
})

test(
  'a refused connection and an unknown host are reported by the name of the error',
  { skip },
  async (t) => {
    const { pool } = await stageOf(t)
    const refused = await faultOf(ensure(pool(), `http://127.0.0.1:9/secret-path?${SECRET}`))
    assert.match(
      errorChain(refused),
      /asking 127\.0\.0\.1: nothing listens at 127\.0\.0\.1:\d+; .*\(ECONNREFUSED\)$/,
    )
    const unknown = await faultOf(ensure(pool(), `http://images.invalid/secret-path?${SECRET}`))
    assert.match(errorChain(unknown), /asking images\.invalid: .*images\.invalid.*\(E[A-Z_]+\)$/)
    assert.equal(unknown.code, 'image_unavailable')
  },
)

test('a user name that cannot be decoded is refused', { skip }, async (t) => {
  const { pool } = await stageOf(t)
  const fault = await faultOf(ensure(pool(), 'http://%ff@127.0.0.1/secret-path'))
  assert.equal(fault.code, 'image_source_refused')
})

test('a private certificate authority is trusted only if it is configured', { skip }, async (t) => {
  const { pool, base, stored } = await stageOf(t)
  const [keyFile, certFile] = [join(base, 'key.pem'), join(base, 'cert.pem')]
  const subject = ['-subj', '/CN=images.example.org', '-addext', 'subjectAltName=IP:127.0.0.1']
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', keyFile]
  await run(['openssl', 'req', '-x509', '-days', '1', ...key, '-out', certFile, ...subject])
  const [secret, cert] = [keyFile, certFile].map((file) => readFileSync(file, 'utf8')) as [string, string]
  const url = await serve(t, send, createHttpsServer({ key: secret, cert }))
  const fault = await faultOf(ensure(pool(), url))
  assert.match(errorChain(fault), /asking 127\.0\.0\.1: .*extra_ca_file.*\(DEPTH_ZERO_SELF_SIGNED_CERT\)$/)
  await ensure(pool({ outbound: outboundOf(t, { extraCa: [cert] }) }), url)
  assert.ok(stored().equals(content))
})

/** Answers every request when the test says so, and counts them. */
function gate(): { answer: RequestListener; open: () => void; asked: () => number; gone: () => number } {
  const { promise, resolve } = Promise.withResolvers<void>()
  let [asked, gone] = [0, 0]
  const answer: RequestListener = (request, response) => {
    asked += 1
    response.on('close', () => (gone += 1))
    response.write(content.subarray(0, 1000))
    void promise.then(() => response.end(content.subarray(1000)))
    request.resume()
  }
  return { answer, open: resolve, asked: () => asked, gone: () => gone }
}

test(
  'callers that want the same image share one fetch, and one that leaves disturbs no other',
  { skip },
  async (t) => {
    const { pool, stored } = await stageOf(t)
    const { answer, open, asked } = gate()
    const url = await serve(t, answer)
    const storage = pool()
    const controller = new AbortController()
    const reason = new Error('the VM is being deleted')
    const leaving = ensure(storage, url, { signal: controller.signal })
    const staying = [ensure(storage, url), ensure(storage, `${url}&fresh=1`)]
    await until(asked, (count) => count === 1)
    controller.abort(reason)
    await assert.rejects(leaving, reason)
    open()
    await Promise.all(staying)
    assert.equal(asked(), 1)
    assert.ok(stored().equals(content))
  },
)

test('a caller is not failed by the URL of another one', { skip }, async (t) => {
  const { pool, stored } = await stageOf(t)
  const { answer, open, asked } = gate()
  const url = await serve(t, (request, response) => {
    if (request.url?.includes('expired') !== true) return send(request, response)
    answer(request, response)
    open()
    return request.socket.destroy()
  })
  const storage = pool({
    bounds: { bytesMax: 1024 * 1024, stallMs: 60_000, totalMs: 60_000, resumeDelayMs: () => 1 },
  })
  const first = faultOf(ensure(storage, `${url}&expired=1`))
  await until(asked, (count) => count > 0)
  await ensure(storage, url)
  assert.ok(stored().equals(content))
  await first
})

test(
  'when the last caller leaves the fetch ends, and the next one starts from the beginning',
  { skip },
  async (t) => {
    const { pool, stored, temporaries } = await stageOf(t)
    const { answer, open, asked, gone } = gate()
    const url = await serve(t, answer)
    const storage = pool()
    const controller = new AbortController()
    const reason = new Error('the VM is being deleted')
    const leaving = [
      ensure(storage, url, { signal: controller.signal }),
      ensure(storage, url, { signal: controller.signal }),
    ]
    await until(
      () => [temporaries().length, asked()],
      ([files, requests]) => files === 1 && requests === 1,
    )
    controller.abort(reason)
    // Both are observed at once, because either may reject first.
    await Promise.all(leaving.map((left) => assert.rejects(left, reason)))
    assert.deepEqual(temporaries(), [])
    await until(gone, (count) => count === 1)
    open()
    await ensure(storage, url)
    assert.equal(asked(), 2)
    assert.ok(stored().equals(content))
  },
)

test(
  'only so many fetches of a source run at once, and a caller that waits for a place can leave',
  { skip },
  async (t) => {
    const { pool } = await stageOf(t)
    const { answer, open, asked } = gate()
    const url = await serve(t, answer)
    const storage = pool()
    const others = Array.from(
      { length: 3 },
      (_, n) => createHash('sha256').update(String(n)).digest('hex') as Sha256,
    )
    const running = others.map((digest) => storage.ensureImage(digest, { url: new SignedUrl(url) }, never))
    const settled = Promise.allSettled(running)
    await until(asked, (count) => count === 3)
    const controller = new AbortController()
    const reason = new Error('the VM is being deleted')
    const waiting = ensure(storage, url, { signal: controller.signal })
    await until(
      () => getEventListeners(controller.signal, 'abort').length,
      (count) => count > 0,
    )
    controller.abort(reason)
    await assert.rejects(waiting, reason)
    open()
    await settled
    assert.equal(asked(), 3)
  },
)

test('an image that is being fetched is not removed', { skip }, async (t) => {
  const { pool, stored, images, temporaries } = await stageOf(t)
  const { answer, open, asked } = gate()
  const storage = pool()
  const fetching = ensure(storage, await serve(t, answer))
  await until(asked, (count) => count === 1)
  await storage.removeImage(sha256, () => true)
  open()
  await fetching
  assert.ok(stored().equals(content))
  await storage.removeImage(sha256, () => true)
  assert.deepEqual([images(), temporaries()], [[], []])
})

test('a local image is taken from inside its directory only', { skip }, async (t) => {
  const { pool, base, stored } = await stageOf(t)
  const [inside, sibling] = [join(base, 'images'), join(base, 'images-of-others')]
  mkdirSync(inside)
  mkdirSync(join(inside, 'folder'))
  mkdirSync(sibling)
  for (const path of [join(inside, 'image'), join(sibling, 'image'), join(base, 'image')])
    writeFileSync(path, content)
  symlinkSync('image', join(inside, 'link-inside'))
  symlinkSync(join(base, 'image'), join(inside, 'link-outside'))
  symlinkSync(sibling, join(inside, 'folder-outside'))
  await run(['mkfifo', join(inside, 'fifo')])
  const storage = pool({ localImagesDirectory: inside })
  const urlOf = (path: string): string => `file://${inside}/${path}`
  for (const [path, code] of [
    ['../image', 'image_source_refused'],
    ['../images-of-others/image', 'image_source_refused'],
    ['link-outside', 'image_source_refused'],
    ['folder-outside/image', 'image_source_refused'],
    ['folder', 'image_unavailable'],
    ['fifo', 'image_unavailable'],
    ['%2e%2e%2fimage', 'image_source_refused'],
    ['im%00age', 'image_source_refused'],
    ['missing', 'image_unavailable'],
  ] as const) {
    assert.equal((await faultOf(ensure(storage, urlOf(path)))).code, code, path)
  }
  assert.equal((await faultOf(ensure(pool(), urlOf('image')))).code, 'image_source_refused')
  await ensure(storage, urlOf('link-inside'))
  assert.ok(stored().equals(content))
})
