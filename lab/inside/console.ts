/** Viewers of the consoles of a lab's daemon. */
import { once } from 'node:events'
import { Agent } from 'node:https'
import { WebSocket } from 'ws'
import { controllerIdentity } from './controller.ts'

/** The control message that begins a session. */
export type Attached = {
  readonly session: string
  readonly cursor: number
  readonly replay_bytes: number
  readonly lost_bytes: number
}

export type Viewer = {
  readonly socket: WebSocket
  readonly attached: Attached
  /** Bytes that came so far. */
  received(this: void): number
  /** Resolves when so many bytes have come. Rejects if the viewer is closed before. */
  reached(this: void, bytes: number): Promise<void>
}

export type ViewOptions = {
  readonly query?: Readonly<Record<string, string>>
  readonly onOutput?: (chunk: Buffer) => void
}

let agent: Agent | undefined

const openAgent = (): Agent => (agent ??= new Agent(controllerIdentity()))

/** Attaches to the serial console of a VM. Rejects if the daemon does not answer or refuses. */
export async function view(id: string, { query = {}, onOutput }: ViewOptions = {}): Promise<Viewer> {
  const address = `wss://localhost:9000/v1/vms/${id}/console?${new URLSearchParams(query).toString()}`
  const socket = new WebSocket(address, {
    agent: openAgent(),
    perMessageDeflate: false,
  })
  let bytes = 0
  const waiting = new Set<{ readonly bytes: number } & PromiseWithResolvers<void>>()
  const attached = Promise.withResolvers<Attached>()
  socket.on('message', (message: Buffer, isBinary) => {
    if (!isBinary) {
      const received = JSON.parse(message.toString()) as { attached?: Attached }
      if (received.attached !== undefined) attached.resolve(received.attached)
      return
    }
    bytes += message.length
    onOutput?.(message)
    for (const one of waiting) {
      if (bytes < one.bytes) continue
      waiting.delete(one)
      one.resolve()
    }
  })
  socket.on('error', attached.reject)
  socket.on('close', (code, reason) => {
    const closed = new Error(`${id} closed: ${code} ${reason.toString()}, after ${bytes} bytes`)
    for (const { reject } of [attached, ...waiting]) reject(closed)
  })
  return {
    socket,
    attached: await attached.promise,
    received: () => bytes,
    async reached(target) {
      if (bytes >= target) return
      const reached = Promise.withResolvers<void>()
      waiting.add({ bytes: target, ...reached })
      await reached.promise
    },
  }
}

/** Ends a viewer, and waits until it has ended. */
export async function leave({ socket }: Viewer): Promise<void> {
  if (socket.readyState === WebSocket.CLOSED) return
  const closed = once(socket, 'close')
  socket.close()
  await closed
}

/**
 * Follows a console across restarts of its daemon, as a client that counts bytes does: nothing may be missing or come
 * twice.
 */
export class Follower {
  readonly #id: string
  readonly #decoder = new TextDecoder()
  readonly #onText: (text: string) => void
  #viewer: Viewer | undefined
  #session: string | undefined
  #cursor = 0
  #ended = false
  /** Bytes that the daemon reported as lost. */
  lostBytes = 0
  /** Number of connections so far. */
  lives = 0

  /** `onText` gets all output, in order and in pieces of any size. */
  constructor(id: string, onText: (text: string) => void) {
    this.#id = id
    this.#onText = onText
  }

  /** Connects, and reconnects whenever the connection ends, until `end`. */
  async follow(): Promise<void> {
    while (!this.#ended) {
      try {
        const viewer = await this.#attach()
        await once(viewer.socket, 'close')
      } catch {
        // The daemon is starting.
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
  }

  type(text: string): void {
    this.#viewer?.socket.send(Buffer.from(text))
  }

  end(): void {
    this.#ended = true
    this.#viewer?.socket.close()
  }

  async #attach(): Promise<Viewer> {
    const query = this.#session === undefined ? {} : { session: this.#session, since: String(this.#cursor) }
    const viewer = await view(this.#id, {
      query,
      onOutput: (chunk) => {
        this.#cursor += chunk.length
        this.#onText(this.#decoder.decode(chunk, { stream: true }))
      },
    })
    const { session, lost_bytes } = viewer.attached
    this.#session = session
    this.lostBytes += lost_bytes
    this.lives += 1
    this.#viewer = viewer
    return viewer
  }
}
