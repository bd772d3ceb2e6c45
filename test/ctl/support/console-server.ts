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
  /** What came in binary messages, together. */
  input(): string
  /** The text messages. */
  told(): unknown[]
  tell(message: object): void
  say(text: string): void
}

/** A daemon whose part the test plays: for what a real one does seldom, or never should. */
export type ConsoleServer = {
  readonly url: string
  readonly port: number
  /** What the next upgrades are answered with instead, one each. */
  readonly refusals: { readonly status: number; readonly body: string }[]
  readonly served: Served[]
  /** The connection of this number, from 0, when it is there. */
  connection(index: number): Promise<Served>
  /** Listens no more and cuts every connection. */
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
  const told: unknown[] = []
  ws.on('message', (data: Buffer, isBinary) => {
    if (isBinary) input.push(data)
    else told.push(JSON.parse(data.toString()))
  })
  return {
    query,
    ws,
    input: () => Buffer.concat(input).toString(),
    told: () => told,
    tell: (message) => ws.send(JSON.stringify(message)),
    say: (text) => ws.send(Buffer.from(text)),
  }
}

/** How a daemon begins a session. */
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
