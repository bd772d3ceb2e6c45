import { limits } from '../../config/limits.ts'
import { Refused } from '../listener/refused.ts'

/** Ends the connection of a reader. */
export type EndReader = (because: 'stalled') => void

/** Bounds the streams of events: how many there are, and how long one may wait for its reader. */
export class EventReaders {
  readonly #closing = new AbortController()
  #count = 0

  get count(): number {
    return this.#count
  }

  /** Aborts when the listener closes; streams end then. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  close(): void {
    this.#closing.abort()
  }

  /** Passes the texts of a stream on to its reader. Refuses if there are too many readers. */
  take(texts: AsyncGenerator<string>, end: EndReader): AsyncGenerator<string> {
    if (this.#count >= limits.eventReadersMax) {
      throw new Refused({
        code: 'event_readers_full',
        detail: `${limits.eventReadersMax} streams of events are read already`,
      })
    }
    this.#count += 1
    return this.#passOn(texts, end)
  }

  /** Call it once the connection has closed. A stream that was never read does not end by itself. */
  release(): void {
    this.#count -= 1
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
