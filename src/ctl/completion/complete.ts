import { createApiClient } from '../../client/api-client.ts'
import { limits } from '../../config/limits.ts'
import { buildProgram } from '../command-line.ts'
import { exitStatus } from '../exit-status.ts'
import { loadProfile } from '../profile.ts'
import { showMib } from '../../lib/shown-units.ts'
import type { Argument, Command as Parser, Option as ParserOption } from 'commander'
import type { ApiClient } from '../../client/api-client.ts'
import type { Command, Completes, Kind } from '../command.ts'
import type { Program } from '../command-line.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Shell } from '../shell.ts'

/** Makes the shell's script offer files. */
const FILES = ':files'

type Candidate = { readonly word: string; readonly help?: string }

/**
 * Prints candidates for the last of `words`, one per line, with its help after a tab. Prints no errors: they would
 * disturb a user who is typing a command.
 */
export async function complete(
  words: readonly string[],
  commands: readonly Command[],
  shell: Shell,
): Promise<ExitStatus> {
  const typed = joinEquals(words)
  const current = typed.at(-1) ?? ''
  const [, option = '', value = current] = /^(--[^=]+=)(.*)$/.exec(current) ?? []
  // Of `--state=fa` the value is completed, as if it were a word of its own.
  const before = [...typed.slice(0, -1), ...(option === '' ? [] : [option.slice(0, -1)])]
  const candidates = await candidatesFor(before, value, {
    program: buildProgram(commands, shell.stdout),
    shell,
  })
  // A shell that sees `--state=fa` as one word needs the whole word back.
  const prefix = words.at(-1) === current ? option : ''
  for (const { word, help } of candidates) {
    if (word !== FILES && !word.startsWith(value)) continue
    const whole = word === FILES ? word : prefix + word
    shell.stdout.write(help === undefined ? `${whole}\n` : `${whole}\t${help}\n`)
  }
  return exitStatus.done
}

/** Joins `--state=failed`, which bash passes as three words. */
function joinEquals(words: readonly string[]): string[] {
  const joined: string[] = []
  for (const [index, word] of words.entries()) {
    const previous = joined.at(-1) ?? ''
    const continues = words[index - 1] === '=' && previous.startsWith('--')
    if ((word === '=' && previous.startsWith('--')) || continues) joined[joined.length - 1] = previous + word
    else joined.push(word)
  }
  return joined
}

type Asked = { readonly program: Program; readonly shell: Shell }

/** Returns candidates for the word after `before`; none if these words are wrong or the daemon does not answer. */
async function candidatesFor(
  before: readonly string[],
  current: string,
  asked: Asked,
): Promise<readonly Candidate[]> {
  try {
    return await findCandidates(before, current, asked)
  } catch {
    return []
  }
}

async function findCandidates(
  before: readonly string[],
  current: string,
  { program: { parser: root, offers }, shell }: Asked,
): Promise<readonly Candidate[]> {
  const shared = read(root, before)
  const { parser, operands } = descend(root, shared.operands)
  const own = read(parser, shared.unknown)
  const values = (of: ParserOption | Argument): Promise<readonly Candidate[]> =>
    valuesOf(offers.get(of), root.getOptionValue('profile') as string | undefined, shell)
  const awaiting = shared.awaiting ?? own.awaiting
  if (awaiting !== undefined) return values(awaiting)
  if (current.startsWith('-')) return optionsOf(parser)
  const given = [...operands, ...own.operands]
  const { registeredArguments: known } = parser
  if (known.length === 0) return given.length > 0 ? [] : parser.commands.map(wordOf)
  const argument = known[given.length] ?? known.find(({ variadic }) => variadic)
  if (argument === undefined) return []
  return (await values(argument)).filter(({ word }) => !given.includes(word))
}

type Read = ReturnType<Parser['parseOptions']> & { readonly awaiting: ParserOption | undefined }

/** Reads what a parser knows of these words. The last of them may be an option whose value is being typed. */
function read(parser: Parser, words: readonly string[]): Read {
  const awaiting = parser.options.find((option) => option.required && option.long === words.at(-1))
  return { ...parser.parseOptions(words.slice(0, awaiting === undefined ? undefined : -1)), awaiting }
}

/** Returns the command that the first words name, and the words behind it. */
function descend(at: Parser, words: readonly string[]): { parser: Parser; operands: readonly string[] } {
  const below = at.commands.find((command) => command.name() === words[0])
  return below === undefined ? { parser: at, operands: words } : descend(below, words.slice(1))
}

const wordOf = (command: Parser): Candidate => ({ word: command.name(), help: command.summary() })

function optionsOf(parser: Parser): Candidate[] {
  const help = parser.createHelp()
  const options = [...help.visibleOptions(parser), ...help.visibleGlobalOptions(parser)]
  return options.map(({ long, description }) => ({ word: long ?? '', help: description }))
}

async function valuesOf(
  completes: Completes | undefined,
  profile: string | undefined,
  shell: Shell,
): Promise<readonly Candidate[]> {
  if (completes === undefined) return []
  if (completes === 'file') return [{ word: FILES }]
  if (typeof completes !== 'string') return completes.map((word) => ({ word }))
  const client = createApiClient(loadProfile(profile, shell))
  try {
    return await NAMES[completes](client, AbortSignal.timeout(limits.ctlCompletionMs))
  } finally {
    client.close()
  }
}

const PAGE = { query: { limit: limits.listItemsMax } }

type ReadNames = (client: ApiClient, signal: AbortSignal) => Promise<readonly Candidate[]>

/** Reads a page of the existing names of each kind. */
const NAMES: Readonly<Record<Kind, ReadNames>> = {
  async vm(client, signal) {
    const { data } = await client.GET('/v1/vm-states', { params: PAGE, signal })
    return (data?.items ?? []).map(({ id, state }) => ({ word: id, help: state }))
  },
  async snapshot(client, signal) {
    const { data } = await client.GET('/v1/snapshots', { params: PAGE, signal })
    return (data?.items ?? []).map(({ id, vm_id: vm, status }) => ({ word: id, help: `${status}, of ${vm}` }))
  },
  async image(client, signal) {
    const { data } = await client.GET('/v1/images', { params: PAGE, signal })
    return (data?.items ?? []).map(({ sha256, size_mib: size }) => ({ word: sha256, help: showMib(size) }))
  },
}
