/** Whether a value that was parsed is an object with members, and not an array. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether a value is a whole number and not negative. It may be too large to be exact: counters of bytes are. */
export const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0

/** Parses JSON; undefined if the text is none. Drops the message of JSON.parse, because it quotes the text. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Returns the place that an error of JSON.parse names, as `: line 2, column 7`; empty if it names none. Leaves out the
 * text that the error quotes: it may be a signed URL.
 */
export function placeOfJsonError(error: unknown): string {
  const [, line, column] = /line (\d+) column (\d+)/.exec(error instanceof Error ? error.message : '') ?? []
  return line === undefined ? '' : `: line ${line}, column ${column}`
}

/** Parses JSON that should be an object; returns one without members if it is something else. */
export function objectInJson(text: string): Readonly<Record<string, unknown>> {
  const value = parsedJson(text)
  return isObject(value) ? value : {}
}
