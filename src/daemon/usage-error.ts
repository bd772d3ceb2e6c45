/** A command line that cannot be meant; the message says what is wrong. The command then has done nothing. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The start of the codes that `parseArgs` of node:util gives to its errors. */
const PARSE_ERROR = 'ERR_PARSE_ARGS_'

/**
 * Returns what is wrong with a command line, for an error that says so; undefined for any other error. Takes the first
 * sentence of Node's messages: the others explain how to write operands that begin with a dash.
 */
export function usageFault(error: unknown): string | undefined {
  if (error instanceof UsageError) return error.message
  if (!(error instanceof Error && 'code' in error)) return undefined
  return String(error.code).startsWith(PARSE_ERROR) ? error.message.split(/\.?(?:\s*\n|\. |$)/)[0] : undefined
}
