import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { TestContext } from 'node:test'
import type { Pki } from '../../daemon/support/controller-host.ts'

type Answer = (response: ServerResponse, request: IncomingMessage) => void

const problem = (status: number, headers: Record<string, string>): Answer => {
  const body = {
    type: '',
    title: '',
    code: 'starting_up',
    detail: 'not yet',
    status,
    retryable: true,
    request_id: 'req-1',
  }
  return (response) =>
    response
      .writeHead(status, { 'content-type': 'application/problem+json', ...headers })
      .end(JSON.stringify(body))
}

const whole =
  (status: number, type: string, body: string | Buffer): Answer =>
  (response) =>
    response.writeHead(status, { 'content-type': type }).end(body)

const redirect =
  (status: number): Answer =>
  (response) =>
    response.writeHead(status, { location: '/v1/vms/elsewhere' }).end()

/** Sends until the client closes the connection. */
const endless =
  ({
    status = 200,
    type = 'application/json',
    chunk,
  }: {
    status?: number
    type?: string
    chunk: string
  }): Answer =>
  (response) => {
    const send = (): void => {
      while (!response.destroyed && response.write(chunk));
    }
    response.writeHead(status, { 'content-type': type }).on('drain', send)
    send()
  }

const cut: Answer = (response) =>
  response.writeHead(200, { 'content-length': 100 }).write('{"id":', () => response.destroy())

const stream =
  (text: string, end: (response: ServerResponse) => void): Answer =>
  (response) =>
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(text, () => end(response))

const start = (after: number, missed: boolean): string =>
  `event: start\nid: ${after}\ndata: ${JSON.stringify({ after, kept_after: 0, missed })}\n\n`
const event = (sequence: number): string =>
  `id: ${sequence}\ndata: ${JSON.stringify({ sequence, at: '2030-01-01T00:00:00Z', kind: 'vm_created', vm_id: 'web-1' })}\n\n`

/** Connections on which a request was answered. */
const used = new WeakSet<Socket>()

/** Answers to a request for a VM of this name, or for the events of one. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  elsewhere: whole(200, 'application/json', '{"id":"elsewhere"}'),
  moved: redirect(302),
  'moved-for-good': redirect(308),
  unchanged: (response) => response.writeHead(304).end(),
  busy: problem(503, { 'retry-after': '7' }),
  refused: problem(409, {}),
  'other-problem': whole(502, 'application/json', '{"code":"x"}'),
  'not-text': whole(200, 'application/json', Buffer.from([0xff, 0xfe])),
  cut,
  'cut-chunk': (response) => response.writeHead(200).write('{"id":', () => response.destroy()),
  endless: endless({ chunk: ' '.repeat(1 << 20) }),
  'endless-refusal': endless({ status: 500, chunk: ' '.repeat(1 << 16) }),
  'wrote-nothing': whole(200, 'text/plain', ''),
  // The daemon closes a kept connection just as it is used again.
  closing: (response, { socket }) => {
    if (used.has(socket)) socket.destroy()
    else response.writeHead(202, { 'content-type': 'application/json' }).end('{"id":"closing"}')
    used.add(socket)
  },
  'two-starts': stream(
    `retry: 2000\n${start(3, false)}${event(4)}:\n\n:\nid: 9\n\n${start(20, true)}${event(21)}`,
    (response) => response.end(),
  ),
  'stream-cut': stream(`${start(3, false)}${event(4)}id: 5\ndata: {`, (response) => response.destroy()),
  'stream-silent': stream(`${start(3, false)}:\n\n:\nid: 8\n\n`, () => {}),
  'stream-of-one-line': endless({ type: 'text/event-stream', chunk: 'x'.repeat(1 << 16) }),
  'stream-of-one-message': endless({ type: 'text/event-stream', chunk: `data: ${'x'.repeat(1 << 16)}\n` }),
  'stream-of-page': whole(200, 'text/html', '<html></html>'),
}

/** URL of a server, and files in PEM for both sides. */
export type Reach = {
  readonly url: string
  readonly ca: string
  readonly cert: string
  readonly key: string
}

/**
 * Starts a server that is not the daemon, or a daemon at its end: {@link ANSWERS} has what it answers to which name.
 */
export async function startOddDaemon(t: TestContext, pki: Pki): Promise<number> {
  const https = createServer({ cert: pki.server.certificate, key: pki.server.key }, (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'https://host')
    const name = searchParams.get('vm_id') ?? pathname.split('/')[3] ?? ''
    const answer = ANSWERS[name] ?? whole(404, 'text/plain', '')
    answer(response, request)
  }).listen(0, '127.0.0.1')
  await once(https, 'listening')
  t.after(() => {
    https.closeAllConnections()
    https.close()
  })
  return (https.address() as AddressInfo).port
}

/** Writes the files with which the controller reaches a server at this port. */
export function reachOf(port: number, { authority, controller }: Pki, folder: string): Reach {
  const texts = { ca: authority.certificate, cert: controller.certificate, key: controller.key }
  const files = Object.entries(texts).map(([name, text]) => {
    const file = join(folder, `${name}.pem`)
    writeFileSync(file, text)
    return [name, file] as const
  })
  return { url: `https://127.0.0.1:${port}`, ...(Object.fromEntries(files) as Omit<Reach, 'url'>) }
}
