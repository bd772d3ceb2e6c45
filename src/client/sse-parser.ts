/** A message of a stream of server-sent events. Without data it only brings its reader forward. */
export type SseMessage = {
  /** The type of the message; `message` if the stream gives none. */
  readonly type: string
  readonly data: string
}

/**
 * Parses a stream of server-sent events (WHATWG HTML, "Server-sent events") as it comes. Lines end with LF or CR LF.
 */
export class SseParser {
  #rest = ''
  #type = ''
  #data: string[] = []
  #pendingId: string | undefined
  /** The last id that was complete; send it as `Last-Event-ID` to continue. */
  lastId: string | undefined

  /** Returns the messages that are complete after this piece of text. */
  take(text: string): readonly SseMessage[] {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    return lines.flatMap((line) => this.#line(line.endsWith('\r') ? line.slice(0, -1) : line))
  }

  /** Number of characters of a message that is not complete. */
  get pendingCharacters(): number {
    return this.#data.reduce((sum, { length }) => sum + length, this.#rest.length)
  }

  #line(line: string): readonly SseMessage[] {
    if (line === '') return this.#dispatch()
    const [, name = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (name === 'data') this.#data.push(value)
    else if (name === 'event') this.#type = value
    else if (name === 'id') this.#pendingId = value
    return []
  }

  #dispatch(): readonly SseMessage[] {
    const message = { type: this.#type === '' ? 'message' : this.#type, data: this.#data.join('\n') }
    const isEmpty = this.#data.length === 0
    this.lastId = this.#pendingId ?? this.lastId
    this.#type = ''
    this.#data = []
    this.#pendingId = undefined
    return isEmpty ? [] : [message]
  }
}
