import { GLOBAL_OPTIONS } from '../../src/ctl/command.ts'
import { commands } from '../../src/ctl/commands.ts'
import { ABOUT, ABOUT_WAIT, ENVIRONMENT, EXITS, FILES, FIRST_VM } from '../../src/ctl/manual.ts'
import {
  example,
  heading,
  nameLine,
  page,
  paragraph,
  references,
  sentence,
  subheading,
  synopsis,
  terms,
  title,
} from './roff.ts'
import type { Command, Operand, Option } from '../../src/ctl/command.ts'
import type { Title } from './roff.ts'

const PROGRAM = 'vmhostctl'

type About = Pick<Title, 'date' | 'version'>

/**
 * Renders vmhostctl(1), and a page for each group of commands, as vmhostctl-vm(1), from the table of commands. Returns
 * the texts by the names of the pages. `man vmhostctl vm` finds the page of a group.
 */
export function clientPages(about: About): Map<string, string> {
  const groups = Map.groupBy(commands, ({ words: [first = '', second] }) =>
    second === undefined ? PROGRAM : `${PROGRAM}-${first}`,
  )
  const names = [...groups.keys()].filter((name) => name !== PROGRAM)
  const pages = names.map((name) => [name, groupPage(name, groups.get(name) ?? [], about)] as const)
  return new Map([[PROGRAM, overviewPage(groups.get(PROGRAM) ?? [], names, about)], ...pages])
}

function overviewPage(alone: readonly Command[], groups: readonly string[], about: About): string {
  return page([
    title({ ...about, name: PROGRAM, section: 1 }),
    heading('NAME'),
    nameLine(PROGRAM, 'the client of vmhostd for people and scripts'),
    heading('SYNOPSIS'),
    synopsis(`${PROGRAM} COMMAND [OPTIONS]`),
    heading('DESCRIPTION'),
    paragraph(ABOUT),
    paragraph(ABOUT_WAIT),
    heading('OPTIONS'),
    paragraph('Every command takes these, before or after its words:'),
    ...terms([...GLOBAL_OPTIONS.map(termOf), ['-h, --help', 'help for the command, with examples']]),
    heading('COMMANDS'),
    ...terms(commands.map((command) => [callOf(command), sentence(command.summary)])),
    ...alone.flatMap(commandParts),
    ...commonEnd(),
    heading('EXAMPLES'),
    example(FIRST_VM.lead, FIRST_VM.lines),
    heading('SEE ALSO'),
    references([...groups.map((name) => `${name}(1)`), 'vmhostd(8)']),
  ])
}

function groupPage(name: string, members: readonly Command[], about: About): string {
  const words = name.replaceAll('-', ' ')
  return page([
    title({ ...about, name, section: 1 }),
    heading('NAME'),
    nameLine(name, `the commands that begin with "${words}"`),
    heading('SYNOPSIS'),
    synopsis(`${words} COMMAND [OPTIONS]`),
    heading('DESCRIPTION'),
    paragraph(ABOUT_WAIT),
    heading('OPTIONS'),
    paragraph('Besides its own options, every command takes these, before or after its words:'),
    ...terms(GLOBAL_OPTIONS.map(termOf)),
    heading('COMMANDS'),
    ...terms(members.map((command) => [callOf(command), sentence(command.summary)])),
    ...members.flatMap(commandParts),
    ...commonEnd(),
    heading('SEE ALSO'),
    references(['vmhostctl(1)', 'vmhostd(8)']),
  ])
}

const commonEnd = (): string[] => [
  heading('EXIT STATUS'),
  ...terms(EXITS.map(([status, meaning]) => [String(status), sentence(meaning)])),
  heading('ENVIRONMENT'),
  ...terms(ENVIRONMENT.map(([name, meaning]) => [name, sentence(meaning)])),
  heading('FILES'),
  ...terms(FILES.map(([path, meaning]) => [path, sentence(meaning)])),
]

function commandParts(command: Command): string[] {
  const { words, summary, description, options, examples } = command
  const call = `${PROGRAM} ${words.join(' ')}`
  return [
    subheading(call),
    synopsis(`${PROGRAM} ${callOf(command)}${options.length === 0 ? '' : ' [OPTIONS]'}`),
    paragraph(`${sentence(summary)} ${description ?? ''}`),
    ...terms(options.map(termOf)),
    ...examples.map(([line, why]) =>
      example(`${sentence(why).slice(0, -1)}:`, [`${call} ${line}`.trimEnd()]),
    ),
  ]
}

/** Returns the words and operands of a command. */
const callOf = ({ words, operand, secondOperand }: Command): string =>
  [...words, ...[operand, secondOperand].flatMap((at) => (at === undefined ? [] : [operandOf(at)]))].join(' ')

function operandOf({ placeholder, many = false, optional = false }: Operand): string {
  const term = `${placeholder}${many ? '…' : ''}`
  return optional ? `[${term}]` : term
}

function termOf({ name, value, many = false, help, completes }: Option): [string, string] {
  const choices = Array.isArray(completes) ? `; one of ${completes.join(', ')}` : ''
  const text = sentence(`${help}${many ? '; may be repeated' : ''}${choices}`)
  return [value === undefined ? `--${name}` : `--${name} ${value}`, text]
}
