/** Keys that the keyboard of a phone lacks. */
export const KEYS = ['escape', 'tab', 'left', 'up', 'down', 'right'] as const
export type Key = (typeof KEYS)[number]

const CURSOR_LETTERS = { up: 'A', down: 'B', right: 'C', left: 'D' } as const

/**
 * Returns what a terminal sends for a key. Cursor keys have a second form,
 * for programs that ask for it (DECCKM in xterm's ctlseqs).
 */
export function textOfKey(key: Key, hasApplicationCursor: boolean): string {
  if (key === 'escape') return '\x1b'
  if (key === 'tab') return '\t'
  return `\x1b${hasApplicationCursor ? 'O' : '['}${CURSOR_LETTERS[key]}`
}

/**
 * Returns the control character that Ctrl makes of one character (`c` gives 0x03);
 * undefined if there is none for this text.
 */
export function controlOf(text: string): string | undefined {
  if (!/^[@-_a-z]$/.test(text)) return undefined
  return String.fromCodePoint((text.codePointAt(0) ?? 0) & 0x1f)
}
