import { createApiClient } from '../client/api-client.ts'
import { ConsoleConnection } from '../client/console/console-connection.ts'
import { readEvents } from '../client/events.ts'
import { wsLinks } from '../client/ws-links.ts'
import { kindOf } from './command.ts'
import { readCommandLine } from './command-line.ts'
import { commands } from './commands.ts'
import { complete } from './completion/complete.ts'
import { Daemons, withCertificates } from './daemons.ts'
import { explain } from './advice.ts'
import { exitStatus } from './exit-status.ts'
import { loadProfile } from './profile.ts'
import { scrub } from '../log/scrub.ts'
import { printable } from '../lib/text.ts'
import { paintFor } from './text.ts'
import type { ApiClient } from '../client/api-client.ts'
import type { Context, Kind } from './command.ts'
import type { Called } from './command-line.ts'
import type { Explanation } from './advice.ts'
import type { ExitStatus } from './exit-status.ts'
import type { Profile } from './profile.ts'
import type { Shell } from './shell.ts'

/** The command that shells call for candidates; see the scripts of `vmhostctl completion`. */
const COMPLETE = '__complete'

/** Runs `vmhostctl` with these arguments; resolves with the exit status. */
export async function runCtl(argv: readonly string[], shell: Shell): Promise<ExitStatus> {
  if (argv[0] === COMPLETE) return complete(argv.slice(1), commands, shell)
  const failures = new Failures(shell, argv.includes('--json'))
  try {
    const called = readCommandLine(argv, commands, shell.stdout)
    if (called === undefined) return exitStatus.done
    failures.called = called
    return await runCommand(called, shell, failures)
  } catch (error) {
    return failures.report(error, undefined)
  }
}

async function runCommand(called: Called, shell: Shell, failures: Failures): Promise<ExitStatus> {
  const { command, given } = called
  if (command.endsWithReader === true) shell.endWithReader()
  const daemons = new Daemons(shell, called)
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
    daemon: (profile) => daemons.of(profile),
    openConsole: (request) => open((profile) => new ConsoleConnection(wsLinks(profile), request, shell)),
    readEvents: (request) => open((profile) => readEvents(profile, request)),
    fail: (error, name) => failures.report(error, name),
    warn: (line) => {
      if (!given.isSet('json')) shell.stderr.write(`${scrub(printable(`warning: ${line}`))}\n`)
    },
    print: (value, text) => {
      const printed = given.isSet('json') ? JSON.stringify(value, undefined, 2) : text().trimEnd()
      shell.stdout.write(`${printed}\n`)
    },
  }
  try {
    return await command.run(context)
  } catch (error) {
    return failures.report(error, given.operands[0])
  } finally {
    client?.close()
    daemons.close()
  }
}

/** Reports failures on standard error. */
class Failures {
  readonly #shell: Shell
  readonly #json: boolean
  /** Set from the moment the daemon is asked. */
  profile: Profile | undefined
  /** Set once the command line is read. */
  called: Called | undefined

  constructor(shell: Shell, json: boolean) {
    this.#shell = shell
    this.#json = json
  }

  report(error: unknown, name: string | undefined): ExitStatus {
    const nowMs = this.#shell.nowMs()
    const { profile, called } = this
    const kind = called === undefined ? 'vm' : kindOf(called.command)
    const { given, command } = called ?? {}
    const beginsAgain = command?.beginsAgain
    const circumstances = { profile, kind, name: name ?? 'NAME', given, beginsAgain, nowMs }
    const explanation = explain(error, circumstances)
    const about = { [kind]: name === undefined ? undefined : scrub(name) }
    this.#shell.stderr.write(this.#json ? asJson(explanation, about) : this.#asText(explanation))
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
  { message, code, status, advice, problem, host }: Explanation,
  about: { readonly [K in Kind]?: string | undefined },
): string =>
  `${JSON.stringify({ error: { message, code, exit_status: status, ...about, host, advice, problem } })}\n`
