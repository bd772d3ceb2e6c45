import { once } from 'node:events'
import { createServer } from 'node:https'
import { WebSocketServer } from 'ws'
import { eventually } from '../../daemon/support/eventually.ts'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TestContext } from 'node:test'
import type { WebSocket } from 'ws'
import type { Pki } from '../../daemon/support/controller-host.ts'

/** One upgraded connection, from the daemon's side. */
export type Served = {
  readonly query: URLSearchParams
  readonly ws: WebSocket
  /** Content of all binary messages, joined. */
  input(): string
  /** The text messages. */
  received(): unknown[]
  deliver(message: object): void
  say(text: string): void
}

/** A daemon that the test plays, to do what a real one rarely or never does. */
export type ConsoleServer = {
  readonly url: string
  readonly port: number
  /** Answers to the next upgrades, one each, in place of a connection. */
  readonly refusals: { readonly status: number; readonly body: string }[]
  readonly served: Served[]
  /** Waits for the connection with this number, from 0. */
  connection(index: number): Promise<Served>
  /** Stops listening and cuts every connection. */
  stop(): Promise<void>
}

export async function startConsoleServer(t: TestContext, pki: Pki, port = 0): Promise<ConsoleServer> {
  const { authority, server: pair } = pki
  const server = createServer({
    ...{ ca: authority.certificate, cert: pair.certificate, key: pair.key },
    ...{ requestCert: true, minVersion: 'TLSv1.3' },
  })
  const sockets = new WebSocketServer({ noServer: true })
  const refusals: { readonly status: number; readonly body: string }[] = []
  const served: Served[] = []
  const open = new Set<Duplex>()
  server.on('secureConnection', (socket) => open.add(socket))
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const refused = refusals.shift()
    if (refused !== undefined) {
      const { status, body } = refused
      socket.end(`HTTP/1.1 ${status} no\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
      return
    }
    const { searchParams: query } = new URL(request.url ?? '', 'https://daemon')
    sockets.handleUpgrade(request, socket, head, (ws) => served.push(serve(ws, query)))
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const stop = async (): Promise<void> => {
    if (!server.listening) return
    server.close()
    for (const socket of open) socket.destroy()
    await once(server, 'close')
  }
  t.after(stop)
  const { port: bound } = server.address() as AddressInfo
  return {
    ...{ url: `https://127.0.0.1:${bound}`, port: bound, refusals, served, stop },
    async connection(index) {
      await eventually(() => served.length > index)
      return served[index] as Served
    },
  }
}

function serve(ws: WebSocket, query: URLSearchParams): Served {
  const input: Buffer[] = []
  const received: unknown[] = []
  ws.on('message', (data: Buffer, isBinary) => {
    if (isBinary) input.push(data)
    else received.push(JSON.parse(data.toString()))
  })
  return {
    query,
    ws,
    input: () => Buffer.concat(input).toString(),
    received: () => received,
    deliver: (message) => ws.send(JSON.stringify(message)),
    say: (text) => ws.send(Buffer.from(text)),
  }
}

/** Message with which a daemon begins a session. */
export const attached = (session: string, cursor: number, more: object = {}): object => ({
  attached: { mode: 'tty', session, cursor, replay_bytes: 0, lost_bytes: 0, ...more },
})

export const problem = (
  status: number,
  code: string,
  retryable = false,
): { status: number; body: string } => ({
  status,
  body: JSON.stringify({
    code,
    status,
    detail: `refused: ${code}`,
    title: '',
    retryable,
    request_id: 'req-1',
  }),
})
