import { limits } from '../../config/limits.ts'
import { memberPointer } from '../../lib/json-pointer.ts'

/** An object or an array that is open at some place of a text. */
type Open = {
  /** Absent in an array. */
  readonly names?: Set<string>
  /** The name or the index of the member that is read now. */
  at: string | number
}

/**
 * Returns a JSON pointer to the first member whose name its object had before (RFC 8259, section 4); undefined if there
 * is none. The text must be valid JSON: JSON.parse keeps the last of such members and reports nothing, also not to a
 * reviver. Takes a time in proportion to the length.
 */
export function repeatedMember(text: string): string | undefined {
  const open: Open[] = []
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index]
    const inside = open.at(-1)
    if (character === '{') open.push({ names: new Set(), at: '' })
    else if (character === '[') open.push({ at: 0 })
    else if (character === '}' || character === ']') open.pop()
    else if (character === ',' && typeof inside?.at === 'number') inside.at += 1
    else if (character === '"') {
      const end = endOfString(text, index)
      if (inside?.names !== undefined && isName(text, end)) {
        inside.at = nameIn(text.slice(index, end))
        if (inside.names.has(inside.at)) return pointerTo(open)
        inside.names.add(inside.at)
      }
      index = end - 1
    }
  }
  return undefined
}

/** Returns the index behind the string that begins at `start`. A quote behind an odd number of backslashes is in it. */
function endOfString(text: string, start: number): number {
  for (let quote = start; ;) {
    quote = text.indexOf('"', quote + 1)
    let first = quote
    while (text[first - 1] === '\\') first -= 1
    if ((quote - first) % 2 === 0) return quote + 1
  }
}

/** Returns whether the string that ended before `end` is the name of a member, and not a value. */
function isName(text: string, end: number): boolean {
  let next = end
  while (WHITE_SPACE.has(text[next])) next += 1
  return text[next] === ':'
}

const WHITE_SPACE: ReadonlySet<string | undefined> = new Set([' ', '\t', '\n', '\r'])

/** Returns the name that is meant by a string with its quotes: escapes can write one name in several ways. */
const nameIn = (quoted: string): string =>
  quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1)

function pointerTo(open: readonly Open[]): string {
  const pointer = open
    .slice(0, limits.pointerNamesMax)
    .reduce((parent, { at }) => memberPointer(parent, String(at)), '')
  return open.length > limits.pointerNamesMax ? `${pointer}/…` : pointer
}
