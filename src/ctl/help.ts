import { GLOBAL_OPTIONS } from './command.ts'
import type { Command, Option } from './command.ts'

const COLUMNS = 100

/** Returns the text of `vmhostctl --help`. */
export function renderOverview(commands: readonly Command[]): string {
  const calls = commands.map((command) => [callOf(command), command.summary] as const)
  return `vmhostctl talks to vmhostd, which runs microVMs on one Linux host.

Usage: vmhostctl COMMAND [OPTIONS]

Commands:
${columns(calls)}

Options of every command:
${columns(GLOBAL_OPTIONS.map(optionRow))}

A first VM, from images that lie on the host (storage.local_images_directory of its configuration):

  vmhostctl vm create web-1 --kernel /srv/images/vmlinuz --initrd /srv/images/initrd \\
      --rootfs /srv/images/root.img --ipv4 192.0.2.10 --wait
  vmhostctl vm ls

Every command that changes something returns when the daemon has stored it; --wait goes on until the host is so.
Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 a wait timed out, 4 no profile or no answer.
Each command answers --help, with examples.
`
}

/** Returns the text of `vmhostctl COMMAND --help`. */
export function renderHelp(command: Command): string {
  const { words, summary, description, options, examples } = command
  const name = `vmhostctl ${words.join(' ')}`
  const parts = [
    `${capital(summary)}.`,
    ...(description === undefined ? [] : [wrap(description, '')]),
    `Usage: vmhostctl ${callOf(command)} [OPTIONS]`,
    ...(options.length === 0 ? [] : [`Options:\n${columns(options.map(optionRow))}`]),
    `Options of every command:\n${columns(GLOBAL_OPTIONS.map(optionRow))}`,
    `Examples:\n${examples.map(([line, why]) => `  ${name} ${line}`.trimEnd() + `\n      ${why}`).join('\n')}`,
  ]
  return `${parts.join('\n\n')}\n`
}

/** Lists the commands that begin with a word, such as `vm`. */
export const renderGroup = (word: string, commands: readonly Command[]): string =>
  `Usage: vmhostctl ${word} COMMAND [OPTIONS]\n\nCommands:\n${columns(
    commands.map((command) => [callOf(command), command.summary] as const),
  )}\n\nEach answers --help, with examples.\n`

export function callOf({ words, operand }: Command): string {
  if (operand === undefined) return words.join(' ')
  return `${words.join(' ')} ${operand.placeholder}${operand.many === true ? '…' : ''}`
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

function optionRow({ name, short, value, help, many }: Option): readonly [string, string] {
  const long = `--${name}${value === undefined ? '' : ` ${value}`}`
  const more = many === true ? `${help}; may be repeated` : help
  return [short === undefined ? long : `-${short}, ${long}`, more]
}

/** Renders two columns; the second is wrapped below itself. */
function columns(rows: readonly (readonly [left: string, right: string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length)) + 2
  const indent = ' '.repeat(width + 2)
  return rows.map(([left, right]) => `  ${left.padEnd(width)}${wrap(right, indent)}`).join('\n')
}

/** Wraps between words; every line but the first begins with `indent`. */
function wrap(text: string, indent: string): string {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const line = lines.at(-1)
    if (line === undefined || indent.length + line.length + 1 + word.length > COLUMNS) lines.push(word)
    else lines[lines.length - 1] = `${line} ${word}`
  }
  return lines.join(`\n${indent}`)
}
