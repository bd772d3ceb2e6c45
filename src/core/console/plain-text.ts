import { withoutDirections } from '../../lib/text.ts'

const ESC = String.fromCharCode(27)

/** Matches escape sequences of a terminal (ECMA-48, 5.4 and 8.3.89), and control characters other than a line feed. */
const CONTROLS = new RegExp(
  `${ESC}\\[[0-?]*[ -/]*[@-~]|${ESC}\\][^\\p{Cc}]*(?:${ESC}\\\\)?|[^\\P{Cc}\\n]`,
  'gu',
)

/**
 * Returns console output as text without anything that acts on a terminal or on the order of letters. Line feeds stay.
 */
export const plainText = (output: Uint8Array): string =>
  withoutDirections(new TextDecoder().decode(output).replace(CONTROLS, ''))

/**
 * Returns the lines of console output, at most the last `linesMax`. A carriage return alone begins a line, as in a
 * progress bar. `isCut` says that output before it is lost: then the first line may be half of one, and is left out.
 */
export function logLines(
  output: Uint8Array,
  { isCut, linesMax }: { readonly isCut: boolean; readonly linesMax: number },
): readonly string[] {
  const CR = 0x0d
  const LF = 0x0a
  const broken = output.map((byte, at) => (byte === CR && output[at + 1] !== LF ? LF : byte))
  const lines = plainText(broken).split('\n')
  if (isCut && lines.length > 1) lines.shift()
  // What follows the last line feed is a line only if something is in it.
  if (lines.at(-1) === '') lines.pop()
  return lines.slice(-linesMax)
}
