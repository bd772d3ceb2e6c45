import { once } from 'node:events'
import { WebSocket } from 'ws'
import { until } from '../../contract/until.ts'
import { createBody } from './controller-host.ts'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { TestContext } from 'node:test'
import type { ClientOptions } from 'ws'
import type { VmId } from '../../../src/core/ids.ts'
import type { FakeSession } from '../../fakes/fake-session.ts'
import type { Answer, ControllerHost, Json, Pki } from './controller-host.ts'

export const WEB = 'web-1' as VmId

/** Creates a VM; its console is made by {@link startConsole}. */
export async function createVm(host: ControllerHost, id: VmId = WEB): Promise<void> {
  const answer = await host.call({ method: 'PUT', path: `/v1/vms/${id}`, body: createBody() })
  if (answer.status !== 202) throw new Error(answer.text)
}

/** Makes the VM's console, as the start of the VM does. */
export async function startConsole(host: ControllerHost, id: VmId = WEB): Promise<FakeSession> {
  await host.host.consoles.ensureMaster(id)
  const session = host.host.consoles.session(id)
  if (session === undefined) throw new Error(`${id} has no session`)
  return session
}

export const stopConsole = (host: ControllerHost, id: VmId = WEB): Promise<void> =>
  host.host.consoles.endSession(id)

export type End = { readonly status: number; readonly reason: string }

/** A viewer over a real TLS WebSocket, and everything that it received, in order. */
export class TestViewer {
  readonly socket: WebSocket
  /** Text messages as JSON. */
  readonly texts: Json[] = []
  readonly #chunks: Buffer[] = []
  #end: End | undefined
  #tls: TLSSocket | undefined

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.#chunks.push(data)
      else this.texts.push(JSON.parse(data.toString()))
    })
    socket.on('close', (status, reason) => {
      this.#end = { status, reason: reason.toString() }
    })
    socket.on('error', () => {})
    socket.on('upgrade', (response: IncomingMessage) => {
      this.#tls = response.socket as TLSSocket
    })
  }

  /** All binary messages, joined. */
  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }

  get text(): string {
    return this.bytes.toString()
  }

  /** The connection below, to do what a well-behaved client does not do. */
  get tls(): TLSSocket {
    if (this.#tls === undefined) throw new Error('there is no connection yet')
    return this.#tls
  }

  /** Waits for this much text. */
  async shows(text: string): Promise<void> {
    await until(
      () => this.text,
      (shown) => shown.includes(text),
    )
  }

  /** Waits for the text message with this index. */
  async message(index: number): Promise<Json> {
    await until(
      () => this.texts.length,
      (length) => length > index,
    )
    return this.texts[index]
  }

  /** Waits for the end. */
  async ended(): Promise<End> {
    const end = await until(
      () => this.#end,
      (present) => present !== undefined,
    )
    return end ?? { status: 0, reason: '' }
  }

  get isOver(): boolean {
    return this.#end !== undefined
  }

  send(message: unknown): void {
    this.socket.send(JSON.stringify(message))
  }

  type(text: string | Uint8Array): void {
    this.socket.send(Buffer.from(text))
  }
}

/** Identity of the viewer, and its request. */
export type Dialling = {
  readonly id?: string
  readonly query?: string
  readonly options?: ClientOptions
}

export const dial = (
  host: ControllerHost,
  pki: Pki,
  { id = WEB, query = '', options = {} }: Dialling,
): WebSocket =>
  new WebSocket(`wss://127.0.0.1:${host.port}/v1/vms/${id}/console${query}`, {
    ca: pki.authority.certificate,
    cert: pki.controller.certificate,
    key: pki.controller.key,
    perMessageDeflate: false,
    ...options,
  })

/** Connects, and waits until the viewer is attached or waits. */
export async function watch(
  t: TestContext,
  host: ControllerHost,
  pki: Pki,
  dialling: Dialling = {},
): Promise<TestViewer> {
  const viewer = new TestViewer(dial(host, pki, dialling))
  t.after(() => viewer.socket.terminate())
  await once(viewer.socket, 'open')
  await viewer.message(0)
  return viewer
}

/** Connects and is refused; returns the answer in place of the upgrade. */
export async function refused(host: ControllerHost, pki: Pki, dialling: Dialling = {}): Promise<Answer> {
  const socket = dial(host, pki, dialling)
  socket.on('error', () => {})
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  const headers: IncomingHttpHeaders = response.headers
  const json: Json = JSON.parse(text)
  return { status: response.statusCode ?? 0, headers, text, json, sessionReused: false }
}
