import { BROKEN, parseClose } from '../../src/core/console/close.ts'
import { eventually } from '../daemon/support/eventually.ts'
import type { Link, LinkListeners, Links } from '../../src/client/console/link.ts'

/** One link from the daemon's side. */
export class FakeLink implements Link {
  readonly query: URLSearchParams
  /** All binary messages, joined. */
  input = ''
  /** The text messages. */
  readonly received: unknown[] = []
  isPaused = false
  /** Whether the client asked for the closing handshake. */
  isLeft = false
  isOver = false
  /** Messages that are still taken; later ones do not go out, as when the connection is breaking. */
  takes = Number.POSITIVE_INFINITY
  /** How many messages did not go out. */
  lost = 0
  readonly reading: Link['reading']
  readonly #listeners: LinkListeners

  constructor(path: string, listeners: LinkListeners, canPause: boolean) {
    this.query = new URL(path, 'https://daemon').searchParams
    this.#listeners = listeners
    const set = (isPaused: boolean) => () => void (this.isPaused = isPaused)
    this.reading = canPause ? { pause: set(true), resume: set(false) } : undefined
  }

  async send(message: Uint8Array | string): Promise<boolean> {
    if (this.isOver || this.takes === 0) {
      this.lost += 1
      return false
    }
    this.takes -= 1
    if (typeof message === 'string') this.received.push(JSON.parse(message))
    else this.input += Buffer.from(message).toString()
    return true
  }

  close(): void {
    this.isLeft = true
    this.end(1000, '')
  }

  terminate(): void {
    this.break()
  }

  /** Sends a text message of the daemon. */
  deliver(message: object): void {
    this.#listeners.onText(JSON.stringify(message))
  }

  say(text: string): void {
    this.#listeners.onBytes(Buffer.from(text))
  }

  ping(): void {
    this.#listeners.onPing()
  }

  end(status: number, reason: string): void {
    this.#over(parseClose(status, reason))
  }

  break(): void {
    this.#over(BROKEN)
  }

  #over(close: typeof BROKEN): void {
    if (!this.isOver) this.#listeners.onClosed(close)
    this.isOver = true
  }
}

/** Links to a daemon that the test plays, without a network. */
export class FakeLinks implements Links {
  readonly peer = 'daemon:9000'
  readonly hearPings: boolean
  /** Failures of the next attempts, one each. */
  readonly failures: Error[] = []
  readonly made: FakeLink[] = []
  attempts = 0
  /** Whether attempts get no answer. */
  isMute = false
  readonly #canPause: boolean

  constructor({ inBrowser = false }: { readonly inBrowser?: boolean } = {}) {
    this.hearPings = !inBrowser
    this.#canPause = !inBrowser
  }

  async open(path: string, listeners: LinkListeners, signal: AbortSignal): Promise<Link> {
    this.attempts += 1
    const failure = this.failures.shift()
    if (failure !== undefined) throw failure
    if (this.isMute)
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const link = new FakeLink(path, listeners, this.#canPause)
    this.made.push(link)
    return link
  }

  /** Waits for the link with this number, from 0. */
  async link(index: number): Promise<FakeLink> {
    await eventually(() => this.made.length > index)
    return this.made[index] as FakeLink
  }
}
