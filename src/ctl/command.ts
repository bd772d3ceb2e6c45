import type { ApiClient } from '../client/api-client.ts'
import type { ConsoleConnection, ConsoleRequest } from '../client/console-connection.ts'
import type { Arguments } from './arguments.ts'
import type { ExitStatus } from './exit-status.ts'
import type { Shell } from './shell.ts'
import type { Paint } from './text.ts'

/** What completion offers for a value. */
export type Completes = 'vm' | 'image' | 'snapshot' | 'file' | readonly string[]

/** The kinds of things that commands are about. */
export type Kind = 'vm' | 'snapshot' | 'image'

/** Of the words of a command; those that begin otherwise are about a VM, if about anything. */
export const kindOf = ({ words: [first] }: Pick<Command, 'words'>): Kind =>
  first === 'snapshot' || first === 'image' ? first : 'vm'

export type Option = {
  readonly name: string
  readonly short?: string
  /** What stands for the value in the help; a switch has none. */
  readonly value?: string
  /** May be given several times. */
  readonly many?: boolean
  readonly help: string
  /** A list is also all that is allowed. */
  readonly completes?: Completes
  /** Throws a usage error where the value cannot be meant. Called before anything else is done. */
  readonly check?: (text: string, what: string) => unknown
}

export type Operand = {
  readonly placeholder: string
  /** One or more, instead of exactly one. */
  readonly many?: boolean
  readonly completes?: Completes
}

/** One command: parsing, help and completion are made from it. */
export type Command = {
  /** How it is called, after the program's name. */
  readonly words: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly operand?: Operand
  readonly options: readonly Option[]
  readonly examples: readonly (readonly [line: string, explanation: string])[]
  readonly run: (context: Context) => Promise<ExitStatus>
}

/** What a command runs with. */
export type Context = {
  readonly shell: Shell
  readonly given: Arguments
  /** Whether the output is for a program. */
  readonly json: boolean
  readonly paint: Paint
  /** Reads the profile at its first use. Throws CtlError. */
  readonly client: () => ApiClient
  /** Of a VM, through the same profile. Connects when its events are read. Throws CtlError. */
  readonly openConsole: (request: ConsoleRequest) => ConsoleConnection
  /** Tells a failure on standard error, with what to do next, and answers the status it means. */
  readonly fail: (error: unknown, name: string) => ExitStatus
  /** One line, for people. */
  readonly say: (line: string) => void
  /** What is done all the same, and may not be meant: one line on standard error, for people. */
  readonly warn: (line: string) => void
  /** A value, for programs. */
  readonly answer: (value: unknown) => void
}

export const GLOBAL_OPTIONS: readonly Option[] = [
  {
    name: 'profile',
    value: 'FILE',
    help: 'which daemon, and with which certificate; else VMHOSTCTL_PROFILE or the usual places',
    completes: 'file',
  },
  { name: 'json', help: 'JSON on standard output, for programs; errors as JSON on standard error' },
  { name: 'help', short: 'h', help: 'this text' },
]
