import type { Parser } from '@lezer/common'

/** Returns the lines of a text at which its grammar finds a fault. */
export function syntaxFaults(parser: Parser, text: string): string[] {
  const faults: string[] = []
  parser.parse(text).iterate({
    enter: ({ type, from }) => {
      if (type.isError) faults.push(lineAt(text, from))
    },
  })
  return faults
}

function lineAt(text: string, position: number): string {
  const number = text.slice(0, position).split('\n').length
  return `${number}: ${text.split('\n')[number - 1]}`
}
