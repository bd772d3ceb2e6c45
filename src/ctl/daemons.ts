import { createApiClient } from '../client/api-client.ts'
import { commandFor, explain } from './advice.ts'
import { kindOf } from './command.ts'
import { CtlError } from './ctl-error.ts'
import { exitStatus } from './exit-status.ts'
import { loadProfile } from './profile.ts'
import type { Daemon } from './command.ts'
import type { Called } from './command-line.ts'
import type { Profile } from './profile.ts'
import type { Shell } from './shell.ts'

/** The daemons that a command talks to, each by its profile. */
export class Daemons {
  readonly #shell: Shell
  readonly #called: Called
  readonly #known = new Map<string | undefined, Daemon>()

  constructor(shell: Shell, called: Called) {
    this.#shell = shell
    this.#called = called
  }

  /** Returns the daemon of a profile's file; without one, that of the command. Throws CtlError. */
  of(file = this.#called.given.text('profile')): Daemon {
    const known = this.#known.get(file)
    if (known !== undefined) return known
    const profile = loadProfile(file, this.#shell)
    const client = withCertificates(profile, createApiClient)
    const isOther = file !== this.#called.given.text('profile')
    const daemon = {
      client,
      url: profile.url,
      command: commandFor(isOther ? profile.path : undefined),
      failed: (error: unknown, name?: string) => this.#failed(error, { profile, isOther, about: name }),
    }
    this.#known.set(file, daemon)
    return daemon
  }

  /** Closes the connections. */
  close(): void {
    for (const { client } of this.#known.values()) client.close()
  }

  #failed(error: unknown, { profile, isOther, about }: Failed): CtlError {
    if (error instanceof CtlError) return error
    const { command, given } = this.#called
    const name = about ?? given.operands[0] ?? 'NAME'
    const circumstances = { profile, isOther, kind: kindOf(command), name, given, nowMs: this.#shell.nowMs() }
    const { message, ...more } = explain(error, circumstances)
    return new CtlError(message, more)
  }
}

type Failed = {
  readonly profile: Profile
  readonly isOther: boolean
  /** The object of the request, if it is not the operand of the command. */
  readonly about: string | undefined
}

/** Adds what is wrong with certificate and key if they cannot be used. */
export function withCertificates<T>(profile: Profile, make: (profile: Profile) => T): T {
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
