/** Breaks a text into lines of a comment, each with a prefix; returns no line for an empty text. */
export function comment(text: string, prefix: string, columns = 100): string[] {
  const lines: string[] = []
  for (const paragraph of text.split(/\n+/)) {
    let isNew = true
    for (const word of paragraph.split(/\s+/).filter(Boolean)) {
      const last = lines.at(-1)
      if (!isNew && last !== undefined && last.length + 1 + word.length <= columns)
        lines[lines.length - 1] = `${last} ${word}`
      else lines.push(`${prefix}${word}`)
      isNew = false
    }
  }
  return lines
}

/** Returns the values that a string may have, as a sentence; empty if it may have any. */
export const valuesText = (values: readonly string[], isRequest: boolean): string =>
  values.length === 0
    ? ''
    : `${isRequest ? 'One of' : 'Now one of'}: ${values.map((value) => `\`${value}\``).join(', ')}.`

/** Turns a name in camel or kebab case into one in snake case. */
export const snake = (name: string): string =>
  name
    .replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replace(/^_/, '')
