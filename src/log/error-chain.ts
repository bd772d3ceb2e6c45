import { inspect } from 'node:util'
import { limits } from '../config/limits.ts'
import { cutText } from '../lib/cut-text.ts'

/** The longest chain that is printed; a longer one is cut, not looped over. */
const CAUSES_MAX = 8

/**
 * An error and its causes in one line, outermost first, joined by `: `. Each message is cut: what others sent may be in it.
 * The one printer of chains.
 */
export function errorChain(error: unknown): string {
  const messages: string[] = []
  let current = error
  while (current !== undefined && current !== null && messages.length < CAUSES_MAX) {
    const message = current instanceof Error ? current.message : textOf(current)
    messages.push(cutText(message, limits.faultCharactersMax))
    current = current instanceof Error ? current.cause : undefined
  }
  return messages
    .join(': ')
    .split('\n')
    .map((line) => line.trim())
    .join(' ')
}

/** For what is thrown and is no Error; a secret's own inspection keeps it hidden. */
const textOf = (thrown: unknown): string =>
  typeof thrown === 'string' ? thrown : inspect(thrown, { depth: 1, breakLength: Number.POSITIVE_INFINITY })
