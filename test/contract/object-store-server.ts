import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import type { CompleteOutcome, HeadOutcome, PartOutcome } from '../../src/ports/object-store.ts'
import { FakeObjectStore } from '../fakes/fake-object-store.ts'
import type { FakeObjectStoreOptions } from '../fakes/fake-object-store.ts'
import { ANYWHERE } from '../fakes/outbound.ts'

const never = new AbortController().signal

/** An object store in memory that speaks S3 over HTTP, as far as signed URLs need it. */
export async function serveObjectStore(options: FakeObjectStoreOptions = {}): Promise<{
  readonly world: FakeObjectStore
  stop(): Promise<void>
}> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const policy = { ...ANYWHERE, allowHttp: true, allowedNetworks: ['127.0.0.0/8'] }
  const world = new FakeObjectStore({ ...options, origin, policy })
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    answerTo(world, new SignedUrl(`${origin}${request.url}`), request).then(
      (outcome) => notify(outcome, response),
      // The client closed the connection.
      () => response.destroy(),
    )
  }
  // An invalid URL is answered before the body is requested.
  server.on('request', answer).on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (world.takes(new SignedUrl(`${origin}${request.url}`))) response.writeContinue()
    answer(request, response)
  })
  return {
    world,
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

type Outcome = PartOutcome | CompleteOutcome | HeadOutcome

async function answerTo(world: FakeObjectStore, url: SignedUrl, request: IncomingMessage): Promise<Outcome> {
  const { method, headers } = request
  if (method === 'HEAD') return world.head(url, never)
  if (method === 'POST') return world.complete(url, partsIn(await textOf(request)), never)
  const md5 = Buffer.from(String(headers['content-md5']), 'base64').toString('hex')
  const body = { bytes: Number(headers['content-length']), chunks: () => request }
  return world.putPart({ url, md5, body }, never)
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

const partsIn = (xml: string): { number: number; etag: string }[] =>
  [...xml.matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>&quot;([^&]*)&quot;<\/ETag>/g)].map(
    ([, number, etag = '']) => ({ number: Number(number), etag }),
  )

function notify(outcome: Outcome, response: ServerResponse): void {
  switch (outcome.kind) {
    case 'stored':
      return void response.writeHead(200, { etag: `"${outcome.etag}"` }).end()
    case 'completed':
      return void response.writeHead(200).end('<?xml version="1.0"?>\n<CompleteMultipartUploadResult/>')
    case 'present':
      return void response
        .writeHead(200, { 'content-length': outcome.bytes, etag: `"${outcome.etag}"` })
        .end()
    case 'absent':
      return void response.writeHead(404).end()
    case 'busy':
    case 'damaged':
    case 'expired':
    case 'gone':
    case 'refused':
    case 'not_allowed': {
      // The fake returns the answer that a server would have given.
      const [, status = '500', code = 'InternalError'] = /(\d{3}) \((\w+)\)/.exec(outcome.because) ?? []
      response.writeHead(Number(status)).end(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`)
    }
  }
}
