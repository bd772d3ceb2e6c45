import { inspect } from 'node:util'
import { limits } from '../config/limits.ts'
import { cutText } from '../lib/text.ts'
import type { Hindrance, HostFault } from '../core/errors.ts'
import type { Unknown } from '../core/world/world.ts'

/** The longest chain that is printed; a longer one is cut, not looped over. */
const CAUSES_MAX = 8

/**
 * Prints an error and its causes in one line, outermost first, joined by `: `. Each message is cut, because it may hold
 * foreign text. This is the only printer of chains.
 */
export function errorChain(error: unknown): string {
  const messages: string[] = []
  let current = error
  while (current !== undefined && current !== null && messages.length < CAUSES_MAX) {
    const message = current instanceof Error ? current.message : textOf(current)
    messages.push(cutText(message, limits.faultCharactersMax))
    current = current instanceof Error ? current.cause : undefined
  }
  return inOneLine(messages.join(': '))
}

/** Returns why something could not be done, from the error that says so. */
export const hindranceOf = (fault: Error & Pick<HostFault, 'code' | 'retry'>): Hindrance => ({
  code: fault.code,
  retry: fault.retry,
  message: errorChain(fault),
})

/** Returns what is known after an inspection that failed. */
export const unknownBy = (fault: HostFault): Unknown => ({ known: false, ...hindranceOf(fault) })

/** Joins the lines of a text. The items of a list, which are indented, are kept apart. */
const inOneLine = (text: string): string =>
  text
    .replaceAll(/([^\s:;])\n[ \t]+(?=\S)/g, '$1; ')
    .split('\n')
    .map((line) => line.trim())
    .join(' ')

/** Prints a thrown value that is not an Error; a secret's own inspection keeps it hidden. */
const textOf = (thrown: unknown): string =>
  typeof thrown === 'string' ? thrown : inspect(thrown, { depth: 1, breakLength: Number.POSITIVE_INFINITY })
