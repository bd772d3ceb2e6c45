import path from 'node:path'
import type { TestEvent } from 'node:test/reporters'

/** The program that runs test files in one process. */
export const IN_ORDER = path.join(import.meta.dirname, 'try/in-order.ts')

/**
 * Returns the test file that an event is about as a whole, as it was given; undefined if the event is about a test in
 * it. A file that shares the process of others is a suite of {@link IN_ORDER} with the name of the file.
 */
export function sharedFileOf({ type, data }: TestEvent): string | undefined {
  if (type !== 'test:start' && type !== 'test:pass' && type !== 'test:fail') return undefined
  return data.nesting === 0 && data.file === IN_ORDER ? data.name : undefined
}

/** Returns whether a summary is the one of the whole run, and not of a file in a process of its own. */
export const isOfRun = (file: string | undefined): boolean => file === undefined || file === IN_ORDER
