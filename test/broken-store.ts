import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createTcpServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { TlsOptions } from 'node:tls'
import type { TestContext } from 'node:test'
import { inspect } from 'node:util'
import { errorChain } from '../src/log/error-chain.ts'

/** Stands in the path and query of every URL here, and nowhere else. */
export const CANARY = 'c4n4ry'

/** One request, read up to its head. The test decides what to do with the connection. */
export type BrokenRequest = {
  readonly socket: Socket
  /** Request line and headers. */
  readonly head: string
  /** Number of the request, from 0, over all connections. */
  readonly index: number
  /** Asks for the body (100), reads all of it, and resolves. */
  readonly takeBody: () => Promise<void>
  /** Reads all of the body without asking for it, and resolves. */
  readonly takeUnaskedBody: () => Promise<void>
  /** Writes an answer with a Content-Length. */
  readonly answer: (status: number, headers?: Readonly<Record<string, string>>, body?: string) => void
}

export type BrokenStore = {
  readonly origin: string
  /** A signed URL of this store. */
  readonly url: string
  readonly connections: () => number
  /** Heads of the requests that came. */
  readonly heads: readonly string[]
  /** Bytes of bodies that were read. */
  readonly bodyBytes: () => number
}

/** Serves on loopback and does with each request what the test wants, byte by byte. */
export async function breakStore(
  t: TestContext,
  behave: (request: BrokenRequest) => Promise<void> | void,
  tls?: TlsOptions,
): Promise<BrokenStore> {
  const sockets: Socket[] = []
  const heads: string[] = []
  let bodyBytes = 0
  const serve = (socket: Socket): void => {
    sockets.push(socket)
    const reader = new RequestReader(socket, (bytes) => (bodyBytes += bytes))
    socket.on('error', () => undefined)
    void reader.each(async (head, takeUnaskedBody) => {
      const answer: BrokenRequest['answer'] = (status, headers = {}, body = '') => {
        const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
        socket.write(`HTTP/1.1 ${status} X\r\ncontent-length: ${body.length}\r\n${lines.join('')}\r\n${body}`)
      }
      const takeBody = (): Promise<void> => {
        if (/^expect: 100-continue/im.test(head)) socket.write('HTTP/1.1 100 Continue\r\n\r\n')
        return takeUnaskedBody()
      }
      await behave({ socket, head, index: heads.push(head) - 1, takeBody, takeUnaskedBody, answer })
    })
  }
  const server = tls === undefined ? createTcpServer(serve) : createTlsServer(tls, serve)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const origin = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
  const url = `${origin}/${CANARY}/image?partNumber=1&X-Amz-Signature=${CANARY}`
  return { origin, url, connections: () => sockets.length, heads, bodyBytes: () => bodyBytes }
}

/** Cuts the input of one connection into heads and bodies. */
class RequestReader {
  readonly #socket: Socket
  readonly #onBody: (bytes: number) => void
  #waiting = Buffer.alloc(0)

  constructor(socket: Socket, onBody: (bytes: number) => void) {
    this.#socket = socket
    this.#onBody = onBody
  }

  async each(use: (head: string, takeUnaskedBody: () => Promise<void>) => Promise<void>): Promise<void> {
    for (;;) {
      while (!this.#waiting.includes('\r\n\r\n')) if (!(await this.#more())) return
      const end = this.#waiting.indexOf('\r\n\r\n')
      const head = this.#waiting.subarray(0, end).toString('latin1')
      this.#waiting = this.#waiting.subarray(end + 4)
      const bytes = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0)
      let left = bytes
      await use(head, async () => {
        left = await this.#takeBody(bytes)
      })
      // If the body was not taken, the connection serves no further request.
      if (left > 0) return
    }
  }

  /** Returns how many bytes are missing if the other end has gone away; otherwise 0. */
  async #takeBody(bytesOfBody: number): Promise<number> {
    let left = bytesOfBody
    while (left > 0) {
      if (this.#waiting.length === 0 && !(await this.#more())) return left
      const bytes = Math.min(left, this.#waiting.length)
      this.#onBody(bytes)
      left -= bytes
      this.#waiting = this.#waiting.subarray(bytes)
    }
    return 0
  }

  async #more(): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const onData = (chunk: Buffer): void => {
      this.#waiting = Buffer.concat([this.#waiting, chunk])
      resolve(true)
    }
    const onClose = (): void => resolve(false)
    this.#socket.once('data', onData).once('close', onClose).resume()
    if (this.#socket.destroyed) onClose()
    const more = await promise
    this.#socket.off('data', onData).off('close', onClose).pause()
    return more
  }
}

/** Fails if any part of a URL shows in an answer or an error, however it is printed. */
export function assertNoSecret(value: unknown): void {
  const everything = [
    inspect(value, { depth: Number.POSITIVE_INFINITY, showHidden: true, getters: true }),
    errorChain(value),
    JSON.stringify(value, Object.getOwnPropertyNames(value ?? {})),
    value instanceof Error ? `${value.stack} ${value}` : '',
  ]
  assert.ok(!everything.join('\n').includes(CANARY), 'a part of a signed URL is printed')
}
