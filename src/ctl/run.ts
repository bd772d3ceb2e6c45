import { createApiClient } from '../client/api-client.ts'
import { ConsoleConnection } from '../client/console-connection.ts'
import { nearest } from '../lib/nearest.ts'
import { parseArguments } from './parse-arguments.ts'
import { kindOf } from './command.ts'
import { commands } from './commands.ts'
import { complete } from './completion/complete.ts'
import { CtlError, usageError } from './ctl-error.ts'
import { explain } from './advice.ts'
import { exitStatus } from './exit-status.ts'
import { renderGroup, renderHelp, renderOverview } from './help.ts'
import { loadProfile } from './profile.ts'
import { printable } from '../lib/printable.ts'
import { paintFor } from './text.ts'
import type { ApiClient } from '../client/api-client.ts'
import type { Arguments } from './arguments.ts'
import type { Command, Context, Kind } from './command.ts'
import type { Explanation } from './advice.ts'
import type { ExitStatus } from './exit-status.ts'
import type { Profile } from './profile.ts'
import type { Shell } from './shell.ts'

/** The command that shells call for candidates; see the scripts of `vmhostctl completion`. */
const COMPLETE = '__complete'

/** Runs `vmhostctl` with these arguments; resolves with the exit status. */
export async function runCtl(typed: readonly string[], shell: Shell): Promise<ExitStatus> {
  const argv = plainArguments(typed)
  const [first = '--help'] = argv
  if (first === COMPLETE) return complete(argv.slice(1), commands, shell)
  if (HELP.includes(first)) {
    shell.stdout.write(renderOverview(commands))
    return exitStatus.done
  }
  const failures = new Failures(shell, argv.includes('--json'))
  try {
    const command = find(argv, shell)
    if (command === undefined) return exitStatus.done
    failures.kind = kindOf(command)
    const given = parseArguments(command, argv.slice(command.words.length))
    failures.given = given
    if (!given.isSet('help')) return await runCommand(command, given, { shell, failures })
    shell.stdout.write(renderHelp(command))
    return exitStatus.done
  } catch (error) {
    return failures.tell(error, undefined)
  }
}

const HELP: readonly string[] = ['--help', '-h', 'help']

/** Turns `--version` into the command, and `help vm create` into `vm create --help`. */
function plainArguments(argv: readonly string[]): readonly string[] {
  const [first = '', ...rest] = argv
  if (first === '--version') return ['version', ...rest]
  return HELP.includes(first) && rest.length > 0 ? [...rest, '--help'] : argv
}

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

/**
 * Returns the command that the first words name; undefined if they ask for the help of a group, which is then shown.
 */
function find(argv: readonly string[], shell: Shell): Command | undefined {
  const command = commands.find(({ words }) => words.every((word, index) => argv[index] === word))
  if (command !== undefined) return command
  const [first = '', second] = argv
  const group = commands.filter(({ words }) => words.length > 1 && words[0] === first)
  if (group.length === 0) throw unknown(first, commands, '')
  if (second !== undefined && !HELP.includes(second)) throw unknown(second, group, `${first} `)
  shell.stdout.write(renderGroup(first, group))
  return undefined
}

function unknown(word: string, among: readonly Command[], before: string): CtlError {
  const words = [...new Set(among.map((command) => command.words[before === '' ? 0 : 1] ?? ''))]
  const synonym = SYNONYMS.get(word) ?? ''
  const meant = words.includes(synonym) ? synonym : nearest(word, words)
  return usageError(
    `there is no command ${before}${word}`,
    meant === undefined ? `there are ${words.join(', ')}` : `did you mean vmhostctl ${before}${meant}?`,
  )
}

async function runCommand(
  command: Command,
  given: Arguments,
  { shell, failures }: { readonly shell: Shell; readonly failures: Failures },
): Promise<ExitStatus> {
  let client: ApiClient | undefined
  const open = <T>(make: (profile: Profile) => T): T => {
    const profile = loadProfile(given.text('profile'), shell)
    failures.profile = profile
    return withCertificates(profile, make)
  }
  const context: Context = {
    shell,
    given,
    json: given.isSet('json'),
    paint: paintFor(shell.stdout, shell.environment['NO_COLOR']),
    client: () => (client ??= open(createApiClient)),
    openConsole: (request) => open((profile) => new ConsoleConnection(profile, request, shell)),
    fail: (error, name) => failures.tell(error, name),
    say: (line) => shell.stdout.write(`${line}\n`),
    warn: (line) => {
      if (!given.isSet('json')) shell.stderr.write(`${printable(`warning: ${line}`)}\n`)
    },
    answer: (value) => shell.stdout.write(`${JSON.stringify(value, undefined, 2)}\n`),
  }
  try {
    return await command.run(context)
  } catch (error) {
    return failures.tell(error, given.operands[0])
  } finally {
    client?.close()
  }
}

/** Adds what is wrong with certificate and key if they cannot be used. */
function withCertificates<T>(profile: Profile, make: (profile: Profile) => T): T {
  try {
    return make(profile)
  } catch (cause) {
    const { ca, cert, key } = profile.files
    throw new CtlError(`the certificates of ${profile.path} cannot be used`, {
      code: 'profile',
      status: exitStatus.unreachable,
      advice: [`ca is ${ca}`, `cert is ${cert}`, `key is ${key}: it must be that of cert`],
      cause,
    })
  }
}

/** Reports failures on standard error. */
class Failures {
  readonly #shell: Shell
  readonly #json: boolean
  /** Set from the moment the daemon is asked. */
  profile: Profile | undefined
  kind: Kind = 'vm'
  given: Arguments | undefined

  constructor(shell: Shell, json: boolean) {
    this.#shell = shell
    this.#json = json
  }

  tell(error: unknown, name: string | undefined): ExitStatus {
    const nowMs = this.#shell.nowMs()
    const { profile, kind, given } = this
    const explanation = explain(error, { profile, kind, name: name ?? 'NAME', given, nowMs })
    this.#shell.stderr.write(this.#json ? asJson(explanation, { [kind]: name }) : this.#asText(explanation))
    return explanation.status
  }

  #asText({ message, advice }: Explanation): string {
    const { stderr, environment } = this.#shell
    const paint = paintFor(stderr, environment['NO_COLOR'])
    const head = `${paint('vmhostctl:', 'red')} ${printable(message)}\n`
    return head + advice.map((line) => `  ${printable(line)}\n`).join('')
  }
}

/** One line that a program can distinguish from anything else on standard error. */
const asJson = (
  { message, code, status, advice, problem }: Explanation,
  about: { readonly [K in Kind]?: string | undefined },
): string =>
  `${JSON.stringify({ error: { message, code, exit_status: status, ...about, advice, problem } })}\n`
