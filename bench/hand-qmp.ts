import { once } from 'node:events'
import { existsSync, watch } from 'node:fs'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import path from 'node:path'
import { createInterface } from 'node:readline'

type Line = {
  readonly QMP?: object
  readonly return?: unknown
  readonly error?: object
  readonly event?: string
  readonly data?: { readonly status?: string }
}

/** A minimal QMP connection for measurements by hand. It waits for the socket with inotify. */
export class HandQmp {
  readonly #socket: Socket
  readonly #lines: AsyncIterator<string>
  /** Status of the last migration event. */
  migration: string | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    this.#lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  }

  /** Resolves when the monitor has sent its greeting and takes commands. */
  static async open(socketPath: string): Promise<HandQmp> {
    const qmp = new HandQmp(await connected(socketPath))
    while ((await qmp.#next()).QMP === undefined) continue
    await qmp.execute('qmp_capabilities')
    return qmp
  }

  async execute(command: string, args?: object): Promise<unknown> {
    const request = args === undefined ? { execute: command } : { execute: command, arguments: args }
    this.#socket.write(`${JSON.stringify(request)}\n`)
    for (;;) {
      const line = await this.#next()
      if (line.error !== undefined) throw new Error(`${command}: ${JSON.stringify(line.error)}`)
      if (line.return !== undefined) return line.return
    }
  }

  /** Resolves when the guest is loaded and paused. */
  async loaded(): Promise<void> {
    while ((await this.#status()) === 'inmigrate') {
      while (this.migration !== 'completed') {
        if (this.migration === 'failed') throw new Error('the monitor could not read the saved guest')
        await this.#next()
      }
    }
  }

  close(): void {
    this.#socket.destroy()
  }

  async #status(): Promise<string> {
    return ((await this.execute('query-status')) as { readonly status: string }).status
  }

  async #next(): Promise<Line> {
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('the monitor has closed its control socket')
    const line = JSON.parse(value) as Line
    if (line.event === 'MIGRATION') this.migration = line.data?.status
    return line
  }
}

async function connected(socketPath: string): Promise<Socket> {
  const changes = watch(path.dirname(socketPath))
  try {
    for (;;) {
      const changed = once(changes, 'change')
      if (existsSync(socketPath)) {
        const socket = await tryConnect(socketPath)
        if (socket !== undefined) return socket
      }
      await changed
    }
  } finally {
    changes.close()
  }
}

/** Returns undefined if the socket refuses, as it does between bind and listen. */
async function tryConnect(socketPath: string): Promise<Socket | undefined> {
  for (;;) {
    const socket = connect(socketPath)
    try {
      await once(socket, 'connect')
      return socket
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    }
  }
}
