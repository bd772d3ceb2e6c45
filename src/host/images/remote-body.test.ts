import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { recordingLog } from '../../../test/recording-log.ts'
import { silentLog } from '../../log/log.ts'
import { ANYWHERE } from '../../../test/fakes/outbound.ts'
import { MIB } from '../../lib/byte-units.ts'
import { Outbound } from '../outbound/outbound-request.ts'
import { RemoteBody } from './remote-body.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { RemoteTerms } from './remote-body.ts'

const content = Buffer.alloc(4096, 'x')

/** Fetches from a source that answers with `answer`, and returns what came. */
async function fetched(
  t: TestContext,
  answer: RequestListener,
  terms: Partial<RemoteTerms>,
): Promise<number> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const policy = { ...ANYWHERE, allowHttp: true, allowedNetworks: ['127.0.0.0/8'] }
  const outbound = new Outbound({ policy })
  t.after(() => {
    outbound.close()
    server.closeAllConnections()
    server.close()
  })
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/disk.img?X-Sig=CANARY`)
  const bounds = {
    bytesMax: 1e9,
    bound: { bytesMax: 1e9, excess: 'image_too_large' as const },
    stallMs: 10_000,
    resumeDelayMs: () => 1,
    log: silentLog,
  }
  const body = new RemoteBody(url, { outbound, ...bounds, ...terms }, t.signal)
  let bytes = 0
  try {
    for await (const chunk of body.chunks()) bytes += chunk.length
  } finally {
    await body.close()
  }
  return bytes
}

/** Answers with the rest of the content, from the requested offset. */
function begin(...[request, response]: Parameters<RequestListener>): Buffer {
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
  const last = content.length - 1
  response.writeHead(from === 0 ? 200 : 206, {
    'content-length': content.length - from,
    etag: '"v1"',
    ...(from > 0 && { 'content-range': `bytes ${from}-${last}/${content.length}` }),
  })
  return content.subarray(from)
}

async function faultOf(job: Promise<unknown>, code: FaultCode = 'image_unavailable'): Promise<string> {
  const error: unknown = await job.then(
    () => assert.fail('it should have failed'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof HostFault, String(error))
  assert.equal(error.code, code)
  return errorChain(error)
}

test('a source that sends a byte now and then is given up', async (t) => {
  let asked = 0
  const dripping: RequestListener = (request, response) => {
    asked += 1
    const rest = begin(request, response)
    let sent = 0
    const timer = setInterval(() => response.write(rest.subarray(sent, ++sent)), 2)
    response.once('close', () => clearInterval(timer))
  }
  const fault = await faultOf(fetched(t, dripping, { pace: { bytes: 1024 * 1024, ms: 20 } }))
  assert.match(fault, /less than 1024 KiB came in 0\.02 s/)
  assert.equal(asked, 1 + limits.imageResumesMax)
})

test('a source that sends a byte and breaks off, each time, is given up', async (t) => {
  let asked = 0
  const breaking: RequestListener = (request, response) => {
    asked += 1
    response.write(begin(request, response).subarray(0, 1), () => response.destroy())
  }
  await faultOf(fetched(t, breaking, { pace: { bytes: 1024, ms: 60_000 } }))
  assert.equal(asked, 1 + limits.imageResumesMax)
})

test('a source that breaks off often is resumed as long as enough comes', async (t) => {
  let asked = 0
  const breaking: RequestListener = (request, response) => {
    asked += 1
    response.write(begin(request, response).subarray(0, 128), () => response.destroy())
  }
  assert.equal(await fetched(t, breaking, { pace: { bytes: 512, ms: 60_000 } }), content.length)
  assert.ok(asked > limits.imageResumesMax, String(asked))
})

test('each try that breaks off and is resumed has a line in the log, without the path of its URL', async (t) => {
  const { log, lines } = recordingLog()
  let asked = 0
  const breaking: RequestListener = (request, response) => {
    asked += 1
    const rest = begin(request, response)
    if (asked > 2) response.end(rest)
    else response.write(rest.subarray(0, 128), () => response.destroy())
  }
  assert.equal(await fetched(t, breaking, { log, resumeDelayMs: () => 3 }), content.length)
  assert.deepEqual(
    lines.map(({ reason, ...line }) => [line, typeof reason]),
    [1, 2].map((failures) => [
      {
        level: 'info',
        message: 'image fetch broke off; resumed later',
        server: '127.0.0.1',
        bytes: 128 * failures,
        failures,
        resumed_in_ms: 3,
      },
      'string',
    ]),
  )
  assert.doesNotMatch(JSON.stringify(lines), /disk|CANARY/)
})

test('a source that is silent has a line in the log that says so', async (t) => {
  const { log, lines } = recordingLog()
  let asked = 0
  const silent: RequestListener = (request, response) => {
    asked += 1
    const rest = begin(request, response)
    if (asked === 1) response.write(rest.subarray(0, 1))
    else response.end(rest)
  }
  assert.equal(await fetched(t, silent, { log, stallMs: 500 }), content.length)
  assert.deepEqual(
    lines.map(({ bytes, reason }) => [bytes, reason]),
    [[1, 'nothing came for 0.5 s']],
  )
})

for (const encoding of ['', 'identity', 'aws-chunked', 'ZSTD', 'aws-chunked, zstd', 'Identity,,aws-chunked'])
  test(`an encoding that changes nothing is accepted: '${encoding}'`, async (t) => {
    const plain: RequestListener = (_request, response) =>
      response.writeHead(200, { 'content-encoding': encoding }).end(content)
    assert.equal(await fetched(t, plain, {}), content.length)
  })

test('an encoding that changes the bytes is refused, also beside one that does not', async (t) => {
  const packed: RequestListener = (_request, response) =>
    response.writeHead(200, { 'content-encoding': 'aws-chunked, gzip' }).end('x')
  assert.match(await faultOf(fetched(t, packed, {})), /it encoded the body/)
})

test('an error page that is encoded is reported by its status', async (t) => {
  const refusing: RequestListener = (_request, response) =>
    response.writeHead(403, { 'content-encoding': 'gzip' }).end('x')
  assert.match(await faultOf(fetched(t, refusing, {})), /it answered 403$/)
})

/** An error of S3, with more than its code. */
const errorOf = (code: string): string =>
  `<?xml version="1.0"?>\n<Error><Code>${code}</Code><Message>CANARY</Message></Error>`

for (const [status, code] of [
  [403, 'AccessDenied'],
  [403, 'SignatureDoesNotMatch'],
  [400, 'ExpiredToken'],
] as const)
  test(`a refusal has the code of the store, and nothing else of its answer: ${code}`, async (t) => {
    const refusing: RequestListener = (_request, response) => response.writeHead(status).end(errorOf(code))
    const fault = await faultOf(fetched(t, refusing, {}))
    assert.equal(fault, `asking 127.0.0.1: it answered ${status} (${code})`)
  })

test('a refusal whose code does not come in time is reported by its status', async (t) => {
  const silent: RequestListener = (_request, response) => response.writeHead(403).write('<Error><Code>Acc')
  assert.match(await faultOf(fetched(t, silent, { stallMs: 200 })), /it answered 403$/)
})

test('a refusal without end is read up to a bound', async (t) => {
  const endless: RequestListener = (_request, response) => {
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(16 * 1024, ' ')));
    }
    response.writeHead(403).on('drain', more)
    more()
  }
  assert.match(await faultOf(fetched(t, endless, {})), /it answered 403$/)
})

test('a store whose code says that it is busy is asked for the rest again', async (t) => {
  let asked = 0
  const busyOnce: RequestListener = (request, response) => {
    asked += 1
    if (asked === 2) return response.writeHead(400).end(errorOf('RequestTimeout'))
    const rest = begin(request, response)
    return asked > 2 ? response.end(rest) : response.write(rest.subarray(0, 128), () => response.destroy())
  }
  assert.equal(await fetched(t, busyOnce, {}), content.length)
})

test('a fetch that fails after a break says both in one sentence, the last first', async (t) => {
  const cut: RequestListener = (request, response) =>
    response.write(begin(request, response).subarray(0, 128), () => response.destroy())
  const busyFirst: RequestListener = (_request, response) =>
    response.writeHead(503, { 'retry-after': '1' }).end()
  const answering =
    (status: number): RequestListener =>
    (_request, response) =>
      response.writeHead(status).end()
  for (const [answers, words] of [
    [[cut, answering(416)], 'it answered 416 when asked for the rest, after the body broke off (ECONNRESET)'],
    [[busyFirst, answering(403)], 'it answered 403, after it answered 503'],
  ] as const) {
    let asked = 0
    const inTurn: RequestListener = (request, response) => answers[asked++]?.(request, response)
    assert.equal(await faultOf(fetched(t, inTurn, {})), `asking 127.0.0.1: ${words}`)
  }
})

test('a size that the source announces is refused with the words of one that it sends', async (t) => {
  const announcing: RequestListener = (_request, response) =>
    response.writeHead(200, { 'content-length': 64 * MIB }).flushHeaders()
  for (const [excess, whose] of [
    ['disk_smaller_than_image', 'the disk has'],
    ['image_too_large', 'this host takes'],
  ] as const) {
    const terms = { bytesMax: 33 * MIB, bound: { bytesMax: 32 * MIB, excess } }
    const fault = await faultOf(fetched(t, announcing, terms), excess)
    assert.equal(fault, `asking 127.0.0.1: the image has 64 MiB, more than the 32 MiB that ${whose}`)
  }
})

/**
 * Answers as busy, with this Retry-After, to the first requests. Returns the waits that it led to, and the requests.
 */
function busy(retryAfter: string, times: number) {
  const seen = { asked: 0, waits: [] as [failures: number, retryAfterMs: number][] }
  const answer: RequestListener = (request, response) => {
    seen.asked += 1
    if (seen.asked > times) response.end(begin(request, response))
    else response.writeHead(503, { 'retry-after': retryAfter }).end()
  }
  const resumeDelayMs = (failures: number, retryAfterMs: number): number => {
    seen.waits.push([failures, retryAfterMs])
    return 1
  }
  return { answer, terms: { resumeDelayMs }, seen }
}

test('a source that asks for a short wait before it sends anything is asked again after it', async (t) => {
  const { answer, terms, seen } = busy('7', 2)
  assert.equal(await fetched(t, answer, terms), content.length)
  assert.deepEqual(seen.waits, [
    [1, 7000],
    [1, 7000],
  ])
})

test('a source that asks for a long wait, or for none, before it sends anything has failed', async (t) => {
  for (const retryAfter of ['11', '86400', '0']) {
    const { answer, terms, seen } = busy(retryAfter, 1)
    assert.match(await faultOf(fetched(t, answer, terms)), /it answered 503$/)
    assert.equal(seen.asked, 1)
  }
})

test('a source that always asks for a short wait is given up', async (t) => {
  const { answer, terms, seen } = busy('1', Infinity)
  assert.match(await faultOf(fetched(t, answer, terms)), /it answered 503$/)
  assert.equal(seen.asked, 1 + limits.imageResumesMax)
})
