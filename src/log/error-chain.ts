import { inspect } from 'node:util'

/** The longest chain that is printed; a longer one is cut, not looped over. */
const CAUSES_MAX = 8

/** An error and its causes in one line, outermost first, joined by `: `. The one printer of chains. */
export function errorChain(error: unknown): string {
  const messages: string[] = []
  let current = error
  while (current !== undefined && current !== null && messages.length < CAUSES_MAX) {
    messages.push(current instanceof Error ? current.message : textOf(current))
    current = current instanceof Error ? current.cause : undefined
  }
  return messages.join(': ').replace(/\s*\n\s*/g, ' ')
}

/** For what is thrown and is no Error; a secret's own inspection keeps it hidden. */
const textOf = (thrown: unknown): string =>
  typeof thrown === 'string' ? thrown : inspect(thrown, { depth: 1, breakLength: Number.POSITIVE_INFINITY })
