/** Reads a command line with commander. No other file but completion knows that library. */
import { Argument, CommanderError, Help, Command as Parser, Option as ParserOption } from 'commander'
import { nearest } from '../lib/text.ts'
import { Arguments, GLOBAL_OPTIONS } from './command.ts'
import { usageError } from './ctl-error.ts'
import { ABOUT, ABOUT_WAIT, EXITS, FIRST_VM } from './manual.ts'
import type { Command, Completes, Operand, Option } from './command.ts'
import type { Sink } from './shell.ts'

const PROGRAM = 'vmhostctl'
const HELP_COLUMNS_MAX = 100

/** A command with its options and operands. */
export type Called = { readonly command: Command; readonly given: Arguments }

/** The commands as the library has them, for parsing, help and completion. */
export type Program = {
  readonly parser: Parser
  /** The values that completion offers for an option or an operand. */
  readonly offers: ReadonlyMap<ParserOption | Argument, Completes>
}

/**
 * Reads the words after the program's name; undefined if they ask for help, which is then written. Throws a usage
 * error, which suggests what was meant if it can.
 */
export function readCommandLine(
  argv: readonly string[],
  commands: readonly Command[],
  stdout: Sink,
): Called | undefined {
  let called: Called | undefined
  const { parser } = buildProgram(commands, stdout, (found) => (called = found))
  try {
    parser.parse(plainArguments(argv, commands), { from: 'user' })
  } catch (error) {
    // The library ends a call for help by an error too.
    if (!(error instanceof CommanderError)) throw error
  }
  return called
}

const HELP: readonly string[] = ['--help', '-h', 'help']

/**
 * Turns `--version` into the command, and `help vm create` or `vm help create` into `vm create --help`. Words that no
 * command has stay as they are, because the library refuses them only without `--help`.
 */
function plainArguments(argv: readonly string[], commands: readonly Command[]): readonly string[] {
  if (argv[0] === '--version') return ['version', ...argv.slice(1)]
  const at = argv.findIndex((word) => HELP.includes(word))
  if (at === -1) return argv
  const group = argv.slice(0, at)
  const isGroup = commands.some(({ words }) => words.length > group.length && beginWith(words, group))
  if (!isGroup) return argv
  const asked = [...group, ...argv.slice(at + 1)]
  const words = wordsIn(asked)
  const isKnown = commands.some((command) => beginWith(command.words, words.slice(0, command.words.length)))
  return isKnown ? [...asked, '--help'] : asked
}

const beginWith = (words: readonly string[], first: readonly string[]): boolean =>
  first.every((word, at) => word === words[at])

/** Returns the words of a command line without its options, and without the values of those that every command has. */
function wordsIn(argv: readonly string[]): readonly string[] {
  const valued = GLOBAL_OPTIONS.filter(({ value }) => value !== undefined).map(({ name }) => `--${name}`)
  return argv.filter((word, at) => !word.startsWith('-') && !valued.includes(argv[at - 1] ?? ''))
}

/** Builds the library's tree of commands; `call` is called with the one that was typed. */
export function buildProgram(
  commands: readonly Command[],
  stdout: Sink,
  call: (called: Called) => void = () => {},
): Program {
  const offers = new Map<ParserOption | Argument, Completes>()
  const addOption = (parser: Parser, option: Option): void => {
    const added = optionFor(option)
    parser.addOption(added)
    if (option.completes !== undefined) offers.set(added, option.completes)
  }
  const root = rootParser(stdout)
  for (const option of GLOBAL_OPTIONS) addOption(root, option)
  for (const command of commands) {
    const parser = leafParser(root, command)
    for (const option of command.options) addOption(parser, option)
    for (const operand of [command.operand, command.secondOperand]) {
      if (operand === undefined) continue
      const argument = argumentFor(operand)
      parser.addArgument(argument)
      if (operand.completes !== undefined) offers.set(argument, operand.completes)
    }
    parser.action(() => {
      const given = argumentsOf(root, parser)
      refuseLone(command, given, parser)
      refuseSharedInput(command, given, parser)
      call({ command, given })
    })
  }
  return { parser: root, offers }
}

function rootParser(stdout: Sink): Parser {
  const write = (text: string): void => stdout.write(text)
  const columns = (): number => (stdout.isTty ? Math.min(stdout.columns, HELP_COLUMNS_MAX) : HELP_COLUMNS_MAX)
  const root = new Parser(PROGRAM)
    .description(ABOUT)
    .usage('COMMAND [options]')
    .helpOption('-h, --help', 'this text')
    .configureOutput({
      // A group without a command is answered with its help, which is not an error.
      ...{ writeOut: write, writeErr: write, getOutHelpWidth: columns, getErrHelpWidth: columns },
      ...{ getOutHasColors: () => false, getErrHasColors: () => false },
      outputError: () => {},
    })
    .configureHelp({
      showGlobalOptions: true,
      visibleCommands: (at) => (at.parent === null ? at.commands.flatMap(leavesOf) : [...at.commands]),
      subcommandTerm: callOf,
    })
    .addHelpText('after', AFTER_OVERVIEW)
  return root.exitOverride((error) => refuse(error, root))
}

const AFTER_OVERVIEW = [
  `\n${FIRST_VM.lead}\n`,
  ...FIRST_VM.lines.map((line) => `  ${line}`),
  `\n${ABOUT_WAIT}`,
  `Exit status: ${EXITS.map(([status, meaning]) => `${status} ${meaning}`).join(', ')}.`,
  'Each command answers --help, with examples.',
].join('\n')

const leavesOf = (parser: Parser): readonly Parser[] =>
  parser.commands.length === 0 ? [parser] : parser.commands.flatMap(leavesOf)

/** Returns the words and operands of a command, for a list of commands. */
const callOf = (parser: Parser): string =>
  new Help()
    .commandUsage(parser)
    .slice(PROGRAM.length + 1)
    .replace(/ \[options\]/, '')

/** Adds a command to the tree, and the group that it belongs to. */
function leafParser(root: Parser, { words, summary, description, examples }: Command): Parser {
  const [last = '', ...groups] = words.toReversed()
  const group = groups.reduceRight(
    (at, word) => at.commands.find((known) => known.name() === word) ?? groupParser(at, word),
    root,
  )
  const call = `${PROGRAM} ${words.join(' ')}`
  const lines = examples.map(([line, why]) => `  ${call} ${line}`.trimEnd() + `\n      ${why}`)
  const capital = summary.charAt(0).toUpperCase() + summary.slice(1)
  return addParser(group, last)
    .summary(summary)
    .description(`${capital}.${description === undefined ? '' : `\n\n${description}`}`)
    .addHelpText('after', `\nExamples:\n${lines.join('\n')}`)
}

const groupParser = (at: Parser, word: string): Parser =>
  addParser(at, word).usage('COMMAND [options]').addHelpText('after', '\nEach answers --help, with examples.')

function addParser(parent: Parser, word: string): Parser {
  const parser = parent.command(word)
  return parser.exitOverride((error) => refuse(error, parser))
}

function optionFor({ name, value, many = false, help, completes, check }: Option): ParserOption {
  const option = new ParserOption(
    value === undefined ? `--${name}` : `--${name} <${value}>`,
    many ? `${help}; may be repeated` : help,
  )
  if (isList(completes)) return option.choices(completes)
  if (value === undefined) return option
  const checked = (text: string): string => {
    check?.(text, `--${name}`)
    return text
  }
  return many
    ? option.argParser<readonly string[] | undefined>((text, former) => [...(former ?? []), checked(text)])
    : option.argParser<string>(checked)
}

function argumentFor({ placeholder, many = false, optional = false, completes }: Operand): Argument {
  const term = `${placeholder}${many ? '...' : ''}`
  const argument = new Argument(optional ? `[${term}]` : `<${term}>`)
  return isList(completes) ? argument.choices(completes) : argument
}

const isList = (completes: Completes | undefined): completes is readonly string[] => Array.isArray(completes)

function argumentsOf(root: Parser, parser: Parser): Arguments {
  if (parser.args.includes('')) throw usageError('an argument is empty', hintFor(parser))
  // In a URL they lead to another resource (RFC 3986, section 5.2.4).
  const dots = parser.args.find((argument) => argument === '.' || argument === '..')
  if (dots !== undefined) throw usageError(`${dots} is neither a name nor a file`, hintFor(parser))
  const values = parser.optsWithGlobals<Record<string, string | boolean | string[]>>()
  const named = [...root.options, ...parser.options].map((option) => [
    option.name(),
    values[option.attributeName()],
  ])
  return new Arguments(parser.args, Object.fromEntries(named))
}

/** Throws a usage error if an option was given without the one that it needs. */
function refuseLone({ options }: Command, given: Arguments, parser: Parser): void {
  for (const { name, needs } of options)
    if (needs !== undefined && given.hasAny([name]) && !given.hasAny([needs]))
      throw usageError(`--${name} has no effect without --${needs}`, hintFor(parser))
}

/** Throws a usage error if several options read standard input: only the first of them would have it. */
function refuseSharedInput({ options }: Command, given: Arguments, parser: Parser): void {
  const readers = options
    .filter(({ completes }) => completes === 'file')
    .flatMap(({ name }) =>
      [given.text(name), ...given.texts(name)].filter((file) => file === '-').map(() => `--${name} -`),
    )
  if (readers.length > 1)
    throw usageError(`only one of ${readers.join(' and ')} can read standard input`, hintFor(parser))
}

const SHOWN_HELP: readonly string[] = ['commander.help', 'commander.helpDisplayed']

/** Turns an error of the library into one of ours, with what to do next. */
function refuse(error: CommanderError, at: Parser): never {
  if (SHOWN_HELP.includes(error.code)) throw error
  const [first = '', guess] = error.message.split('\n')
  const message = first.replace(/^error: /, '').replace(/\.$/, '')
  if (error.code === 'commander.unknownCommand') throw usageError(message, wordAdvice(at))
  const meant = guess === undefined ? [] : [guess.replace(/^\(D(.*)\)$/, 'd$1')]
  throw usageError(message, ...meant, hintFor(at))
}

const hintFor = (parser: Parser): string => `see ${pathOf(parser)} --help`

const pathOf = (parser: Parser): string =>
  parser.parent === null ? parser.name() : `${pathOf(parser.parent)} ${parser.name()}`

/** Names that other programs use for a command. */
const SYNONYMS: ReadonlyMap<string, string> = new Map([
  ['list', 'ls'],
  ['delete', 'rm'],
  ['remove', 'rm'],
  ['show', 'get'],
  ['describe', 'get'],
  ['inspect', 'get'],
  ['status', 'get'],
  ['new', 'create'],
  ['add', 'create'],
])

function wordAdvice(at: Parser): string {
  const [typed = ''] = at.args
  const words = at.commands.map((command) => command.name())
  const synonym = SYNONYMS.get(typed) ?? ''
  const meant = words.includes(synonym) ? synonym : nearest(typed, words)
  return meant === undefined ? `there are ${words.join(', ')}` : `did you mean ${pathOf(at)} ${meant}?`
}
