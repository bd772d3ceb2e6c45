import { once } from 'node:events'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** Pause between two attempts to connect to the socket, which comes a few milliseconds after the start. */
const AGAIN_MS = 0.5
/** The socket's file is there a moment before the monitor listens on it. */
const NOT_YET: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ECONNREFUSED'])

async function listens(socketPath: string): Promise<boolean> {
  const socket = connect(socketPath)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    if (!NOT_YET.has((error as NodeJS.ErrnoException).code)) throw error
    return false
  } finally {
    socket.destroy()
  }
}

/** A minimal client of Firecracker's API, for measurements by hand. */
export class HandFirecracker {
  readonly #socketPath: string

  private constructor(socketPath: string) {
    this.#socketPath = socketPath
  }

  /** Resolves when the monitor listens. */
  static async open(socketPath: string): Promise<HandFirecracker> {
    while (!(await listens(socketPath))) await delay(AGAIN_MS)
    return new HandFirecracker(socketPath)
  }

  /** Sends one request. Rejects with the monitor's own words if it refuses. */
  async send(method: 'PUT' | 'PATCH', path: string, body: object): Promise<void> {
    const text = JSON.stringify(body)
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const asked = request({ socketPath: this.#socketPath, method, path, headers })
    asked.end(text)
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    const chunks: Buffer[] = []
    for await (const chunk of answer) chunks.push(chunk as Buffer)
    if ((answer.statusCode ?? 500) >= 300)
      throw new Error(`${method} ${path}: ${Buffer.concat(chunks).toString()}`)
  }

  pause(): Promise<void> {
    return this.send('PATCH', '/vm', { state: 'Paused' })
  }
}
