import { limits } from '../../config/limits.ts'
import { Refused } from '../listener/refused.ts'
import type { Role } from './clients.ts'

/** Ends the connection of a reader. */
export type EndReader = (because: 'stalled') => void

/** A client that reads events: the common name of its certificate, and its role. */
export type EventClient = { readonly name: string; readonly role: Role }

/** A stream of a reader. Its place is taken until `release`. */
export type TakenStream = {
  readonly texts: AsyncGenerator<string>
  /** Call it once the connection has closed. A stream that was never read does not end by itself. */
  readonly release: () => void
}

/**
 * Bounds the streams of events: how many there are, in all and of one client, and how long one may wait for its reader.
 * Some places are for controllers alone, so that other clients cannot keep them from the events.
 */
export class EventReaders {
  readonly #closing = new AbortController()
  readonly #taken = new Set<EventClient>()

  get count(): number {
    return this.#taken.size
  }

  /** Aborts when the listener closes; streams end then. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  close(): void {
    this.#closing.abort()
  }

  /** Passes the texts of a stream on to its reader. Refuses if there are too many readers. */
  take({ name, role }: EventClient, texts: AsyncGenerator<string>, end: EndReader): TakenStream {
    const ofClient = [...this.#taken].filter((one) => one.name === name).length
    if (ofClient >= limits.eventReadersPerClientMax)
      throw full(`client ${name} has ${limits.eventReadersPerClientMax} event streams open already`)
    const others = [...this.#taken].filter((one) => one.role !== 'controller').length
    if (role !== 'controller' && others >= limits.eventReadersOthersMax)
      throw full(`clients of other roles have ${limits.eventReadersOthersMax} event streams open already`)
    if (this.count >= limits.eventReadersMax)
      throw full(`${limits.eventReadersMax} event streams are open already`)
    const place = { name, role }
    this.#taken.add(place)
    return { texts: this.#passOn(texts, end), release: () => void this.#taken.delete(place) }
  }

  async *#passOn(texts: AsyncGenerator<string>, end: EndReader): AsyncGenerator<string> {
    let stalled: NodeJS.Timeout | undefined
    try {
      for await (const text of texts) {
        stalled = setTimeout(() => end('stalled'), limits.eventReaderStallMs)
        yield text
        clearTimeout(stalled)
      }
    } finally {
      clearTimeout(stalled)
    }
  }
}

const full = (detail: string): Refused => new Refused({ code: 'event_readers_full', detail })
