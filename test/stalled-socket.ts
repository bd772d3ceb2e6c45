import type { TestContext } from 'node:test'

/** A WebSocket of a browser whose peer reads nothing, until a test sets `bufferedAmount`. */
export class StalledSocket extends EventTarget {
  static readonly OPEN = 1
  readyState = 0
  bufferedAmount = 0
  sentBytes = 0
  lastByte: number | string | undefined
  readonly binaryType = 'arraybuffer'

  /** Opens the connection, and begins a session. */
  begin(): void {
    this.readyState = StalledSocket.OPEN
    this.dispatchEvent(new Event('open'))
    const attached = { mode: 'tty', session: '0123456789abcdef', cursor: 0, replay_bytes: 0, lost_bytes: 0 }
    this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify({ attached }) }))
  }

  send(message: string | Uint8Array): void {
    this.bufferedAmount += message.length
    this.sentBytes += message.length
    this.lastByte = message.at(-1)
  }

  close(): void {
    this.readyState = 3
  }
}

/** Gives the page stalled sockets during a test. Returns those that it has made. */
export function stallSockets(t: TestContext): readonly StalledSocket[] {
  const made: StalledSocket[] = []
  class Kept extends StalledSocket {
    constructor() {
      super()
      made.push(this)
    }
  }
  const { WebSocket } = globalThis
  Object.assign(globalThis, { WebSocket: Kept, location: { host: '192.0.2.1:9000' } })
  t.after(() => {
    Object.assign(globalThis, { WebSocket })
    Reflect.deleteProperty(globalThis, 'location')
  })
  return made
}
