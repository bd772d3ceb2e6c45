import { connect } from 'node:tls'
import { controllerIdentity } from '../lab/inside/controller.ts'
import type { TLSSocket } from 'node:tls'

const HEAD_END = '\r\n\r\n'

/**
 * One kept connection to our daemon with a minimal client. A peer's client is a C library that costs microseconds, and
 * the comparison is about the daemons. One request at a time (HTTP/1.1, RFC 9112).
 */
export class Wire {
  readonly #socket: TLSSocket
  #received: Buffer[] = []
  #waiting: { resolve(body: string): void; reject(error: Error): void } | undefined

  private constructor(socket: TLSSocket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.on('error', (error) => this.#waiting?.reject(error))
    socket.on('close', () => this.#waiting?.reject(new Error('the daemon closed the connection')))
  }

  static async open(): Promise<Wire> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const socket = connect({
      host: 'localhost',
      port: 9000,
      ...controllerIdentity(),
    })
    socket.once('secureConnect', resolve).once('error', reject)
    await promise
    return new Wire(socket)
  }

  /** Returns the body of the answer; throws it if the status is not one of success. */
  async request(method: string, path: string, body?: object): Promise<string> {
    if (!this.#socket.writable) throw new Error('the daemon has closed the connection')
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.#waiting = { resolve, reject }
    const text = body === undefined ? '' : JSON.stringify(body)
    const type = body === undefined ? '' : 'content-type: application/json\r\n'
    const head = `${method} ${path} HTTP/1.1\r\nhost: localhost\r\n${type}content-length: ${Buffer.byteLength(text)}`
    this.#socket.write(`${head}${HEAD_END}${text}`)
    return promise
  }

  close(): void {
    this.#socket.destroy()
  }

  #receive(chunk: Buffer): void {
    this.#received.push(chunk)
    const received = Buffer.concat(this.#received)
    const end = received.indexOf(HEAD_END)
    if (end < 0) return
    const head = received.toString('latin1', 0, end)
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? Number.NaN)
    if (received.length < end + HEAD_END.length + length) return
    this.#received = []
    const body = received.toString('utf8', end + HEAD_END.length)
    if (/^HTTP\/1\.1 2\d\d /.test(head)) this.#waiting?.resolve(body)
    else this.#waiting?.reject(new Error(`${head.split('\r\n')[0]}: ${body}`))
    this.#waiting = undefined
  }
}
