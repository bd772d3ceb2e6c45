import assert from 'node:assert/strict'

/**
 * The words of one room of a plan case. It notes each word that is read. A word that no code reads means nothing, for
 * example because it is misspelt, so it fails the case.
 */
export class Words {
  readonly #all: readonly string[]
  readonly #read = new Set<string>()

  constructor(text: string) {
    this.#all = text.split(/\s+/).filter((word) => word !== '')
  }

  /** Returns the first word, which is the kind of most rooms. */
  first(byDefault: string): string {
    const [word = byDefault] = this.#all
    this.#read.add(word)
    return word
  }

  has(word: string): boolean {
    this.#read.add(word)
    return this.#all.includes(word)
  }

  /** Returns the rest of the word that starts with this prefix. */
  after(prefix: string): string | undefined {
    const found = this.#all.find((word) => word.startsWith(prefix))
    if (found === undefined) return undefined
    this.#read.add(found)
    return found.slice(prefix.length)
  }

  number(prefix: string): number | undefined {
    const text = this.after(prefix)
    return text === undefined ? undefined : Number(text)
  }

  /** Returns all words after the first. */
  rest(): string[] {
    const [, ...rest] = this.#all
    for (const word of rest) this.#read.add(word)
    return rest
  }

  assertRead(room: string): void {
    const unread = this.#all.filter((word) => !this.#read.has(word))
    assert.deepEqual(unread, [], `the parser of plan cases reads no such words of ${room}`)
  }
}
