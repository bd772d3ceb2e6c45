import type { ApiClient } from '../client/api-client.ts'
import type { ConsoleConnection, ConsoleRequest } from '../client/console/console-connection.ts'
import type { EventSight, ReadEventsOptions } from '../client/events.ts'
import type { CtlError } from './ctl-error.ts'
import type { ExitStatus } from './exit-status.ts'
import type { Shell } from './shell.ts'
import type { Paint } from './text.ts'

/** The values that completion offers. */
export type Completes = 'vm' | 'image' | 'snapshot' | 'file' | readonly string[]

/** The kinds of objects that commands work on. */
export type Kind = 'vm' | 'snapshot' | 'image'

/** Returns the kind that a command works on. A command whose first word is not a kind counts as one about a VM. */
export const kindOf = ({ words: [first] }: Pick<Command, 'words'>): Kind =>
  first === 'snapshot' || first === 'image' ? first : 'vm'

export type Option = {
  readonly name: string
  /** Placeholder for the value in the help; a switch has none. */
  readonly value?: string
  /** May be given several times. */
  readonly many?: boolean
  readonly help: string
  /** If this is a list, other values are refused, and the help shows it. */
  readonly completes?: Completes
  /** Throws a usage error if the value cannot be valid. Called before anything else is done. */
  readonly check?: (text: string, what: string) => unknown
  /** The option without which this one has no effect, so that it is refused alone. */
  readonly needs?: string
}

export type Operand = {
  readonly placeholder: string
  /** One or more, instead of exactly one. */
  readonly many?: boolean
  /** May be left out. */
  readonly optional?: boolean
  readonly completes?: Completes
}

/** One command: the source for parsing, help and completion; see command-line.ts. */
export type Command = {
  /** The words after the program's name that call it. */
  readonly words: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly operand?: Operand
  /** The operand behind the only `operand`. */
  readonly secondOperand?: Operand
  readonly options: readonly Option[]
  readonly examples: readonly (readonly [line: string, explanation: string])[]
  /** Whether it may print without end, and so ends with the reader of its output. */
  readonly endsWithReader?: true
  /** Whether a repeat of it does again what is done. */
  readonly beginsAgain?: true
  readonly run: (context: Context) => Promise<ExitStatus>
}

type Value = string | boolean | (string | boolean)[] | undefined

/** Holds the options and operands of one call. */
export class Arguments {
  readonly operands: readonly string[]
  readonly #values: Readonly<Record<string, Value>>

  constructor(operands: readonly string[], values: Readonly<Record<string, Value>>) {
    this.operands = operands
    this.#values = values
  }

  /** The only operand of a command that takes one. */
  get operand(): string {
    return this.operands[0] ?? ''
  }

  /** The operand behind it; empty if it was left out. */
  get secondOperand(): string {
    return this.operands[1] ?? ''
  }

  isSet(name: string): boolean {
    return this.#values[name] === true
  }

  text(name: string): string | undefined {
    const value = this.#values[name]
    return typeof value === 'string' ? value : undefined
  }

  texts(name: string): readonly string[] {
    const value = this.#values[name]
    return Array.isArray(value) ? value.map(String) : []
  }

  /** Returns whether any of these options was given. */
  hasAny(names: readonly string[]): boolean {
    return names.some((name) => this.#values[name] !== undefined)
  }
}

/** A daemon that a command talks to. */
export type Daemon = {
  readonly client: ApiClient
  /** The origin of its controller API. */
  readonly url: string
  /** How commands to it begin: `vmhostctl`, with its profile if that is not the one of the command. */
  readonly command: string
  /**
   * Turns any error of a request to it into one that says what is wrong with it, and what to do. `name` is the object
   * of the request, if it is not the operand of the command.
   */
  readonly failed: (error: unknown, name?: string) => CtlError
}

/** A place where a wait shows how it goes on. */
export type ProgressPlace = {
  /** Shows the present state. */
  status(text: string): void
  /** Prints a line that must stay readable. */
  note(text: string): void
  /** Ends the present state. */
  end(): void
}

/** Everything that a command runs with. */
export type Context = {
  readonly shell: Shell
  readonly given: Arguments
  /** Whether a program reads the output. */
  readonly json: boolean
  readonly paint: Paint
  /** Reads the profile on the first call. Throws CtlError. */
  readonly client: () => ApiClient
  /** Returns the daemon of a profile: that of the command, or of another file. Throws CtlError. */
  readonly daemon: (profile?: string) => Daemon
  /** Opens a VM's console through the same profile. Connects when its events are read. Throws CtlError. */
  readonly openConsole: (request: ConsoleRequest) => ConsoleConnection
  /** Reads events through the same profile. Connects when they are read. Throws CtlError. */
  readonly readEvents: (request: ReadEventsOptions) => AsyncGenerator<EventSight>
  /**
   * Reports a failure on standard error, with what to do next. `name` is what it is about. Returns the exit status for
   * it.
   */
  readonly fail: (error: unknown, name?: string) => ExitStatus
  /** Prints a value for programs, or a text for people. */
  readonly print: (value: unknown, text: () => string) => void
  /** Warns of something that is done but may not be meant: prints one line on standard error, for people. */
  readonly warn: (line: string) => void
  /** Where waits show how they go on, if they share a place; otherwise each has a line of its own. */
  readonly progress?: ProgressPlace
}

export const GLOBAL_OPTIONS: readonly Option[] = [
  {
    name: 'profile',
    value: 'FILE',
    help: 'daemon and certificate; default: VMHOSTCTL_PROFILE or the usual places',
    completes: 'file',
  },
  { name: 'json', help: 'JSON on standard output, for programs; errors as JSON on standard error' },
]
