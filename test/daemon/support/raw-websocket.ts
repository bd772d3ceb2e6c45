import { once } from 'node:events'
import { connect as tlsConnect } from 'node:tls'
import { until } from '../../contract/until.ts'
import { WEB } from './console-viewer.ts'
import type { TLSSocket } from 'node:tls'
import type { TestContext } from 'node:test'
import type { ControllerHost, Pki } from './controller-host.ts'

export const CONSOLE = `/v1/vms/${WEB}/console`

/** Returns the opening handshake (RFC 6455, section 4.1). Undefined removes a header. */
export function handshake(
  changes: Readonly<Record<string, string | undefined>> = {},
  line = `GET ${CONSOLE} HTTP/1.1`,
): string {
  const headers: Readonly<Record<string, string | undefined>> = {
    host: 'localhost',
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    ...changes,
  }
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${value}`],
  )
  return `${[line, ...lines].join('\r\n')}\r\n\r\n`
}

/** A frame of a client, well formed unless changed (RFC 6455, section 5.2). */
export type Frame = {
  readonly opcode: number
  readonly payload?: Uint8Array
  readonly fin?: boolean
  /** The three reserved bits, 0 to 7. */
  readonly rsv?: number
  /** The masking key; null sends it unmasked. */
  readonly mask?: Uint8Array | null
  /** The declared length, if it is not the true one. */
  readonly saidLength?: number
}

export function encode({
  opcode,
  payload = Buffer.alloc(0),
  fin = true,
  rsv = 0,
  mask = Buffer.from([1, 2, 3, 4]),
  saidLength = payload.length,
}: Frame): Buffer {
  const head = [(fin ? 0x80 : 0) | (rsv << 4) | opcode]
  const masked = mask === null ? 0 : 0x80
  if (saidLength < 126) head.push(masked | saidLength)
  else if (saidLength < 65_536) head.push(masked | 126, saidLength >> 8, saidLength & 0xff)
  else {
    const long = Buffer.alloc(8)
    long.writeBigUInt64BE(BigInt(saidLength))
    head.push(masked | 127, ...long)
  }
  const body = mask === null ? payload : payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0))
  return Buffer.concat([Buffer.from(head), mask ?? Buffer.alloc(0), body])
}

export type ServerFrame = { readonly opcode: number; readonly payload: Buffer }

/** A TLS connection under the test's control, which keeps all that it receives. */
export class RawConnection {
  readonly socket: TLSSocket
  #heard = Buffer.alloc(0)
  #ended = false

  constructor(socket: TLSSocket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => {
      this.#heard = Buffer.concat([this.#heard, chunk])
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#ended = true
    })
  }

  get isOver(): boolean {
    return this.#ended
  }

  get text(): string {
    return this.#heard.toString('latin1')
  }

  /** Waits for the head of the answer, and returns its status. */
  async status(): Promise<number> {
    const text = await until(
      () => this.text,
      (heard) => heard.includes('\r\n\r\n'),
    )
    return Number(text.split(' ', 2)[1])
  }

  /** Returns the whole frames after the head of the answer. */
  frames(): ServerFrame[] {
    const frames: ServerFrame[] = []
    let rest = this.#heard.subarray(this.#heard.indexOf('\r\n\r\n') + 4)
    for (;;) {
      const [first, second] = rest
      if (first === undefined || second === undefined) return frames
      const [at, length] = lengthOf(rest, second)
      if (rest.length < at + length) return frames
      frames.push({ opcode: first & 0xf, payload: rest.subarray(at, at + length) })
      rest = rest.subarray(at + length)
    }
  }

  /** Waits for a frame with this opcode. */
  async frame(opcode: number): Promise<ServerFrame> {
    const of = (): ServerFrame | undefined => this.frames().find((frame) => frame.opcode === opcode)
    const found = await until(of, (frame) => frame !== undefined)
    return found ?? { opcode, payload: Buffer.alloc(0) }
  }

  /** Waits for the close frame. */
  async closed(): Promise<{ readonly status: number; readonly reason: string }> {
    const { payload } = await this.frame(8)
    return { status: payload.readUInt16BE(0), reason: payload.subarray(2).toString() }
  }

  async over(): Promise<void> {
    await until(
      () => this.#ended,
      (ended) => ended,
    )
  }

  send(...frames: Frame[]): void {
    this.socket.write(Buffer.concat(frames.map(encode)))
  }
}

function lengthOf(rest: Buffer, second: number): readonly [at: number, length: number] {
  if (second < 126) return [2, second]
  if (second === 126) return rest.length < 4 ? [4, Infinity] : [4, rest.readUInt16BE(2)]
  return rest.length < 10 ? [10, Infinity] : [10, Number(rest.readBigUInt64BE(2))]
}

/** Opens a TLS connection of the controller that has not sent anything yet. */
export async function rawConnection(t: TestContext, host: ControllerHost, pki: Pki): Promise<RawConnection> {
  const socket = tlsConnect({
    host: '127.0.0.1',
    port: host.port,
    ca: pki.authority.certificate,
    cert: pki.controller.certificate,
    key: pki.controller.key,
  })
  t.after(() => socket.destroy())
  await once(socket, 'secureConnect')
  return new RawConnection(socket)
}

/** A viewer that speaks raw frames. */
export async function rawViewer(t: TestContext, host: ControllerHost, pki: Pki): Promise<RawConnection> {
  const connection = await rawConnection(t, host, pki)
  connection.socket.write(handshake())
  const status = await connection.status()
  if (status !== 101) throw new Error(connection.text)
  return connection
}
