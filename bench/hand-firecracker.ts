import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'

/** Pause between two looks for the socket, which comes a few milliseconds after the start. */
const LOOK_EVERY_MS = 0.5

/** A minimal client of Firecracker's API, for measurements by hand. */
export class HandFirecracker {
  readonly #socketPath: string

  private constructor(socketPath: string) {
    this.#socketPath = socketPath
  }

  /** Resolves when the monitor listens. */
  static async open(socketPath: string): Promise<HandFirecracker> {
    while (!existsSync(socketPath)) await delay(LOOK_EVERY_MS)
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
