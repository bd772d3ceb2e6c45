import { given } from '../lib/given.ts'
import type { Problem } from '../client/api-problem.ts'
import type { ExitStatus } from './exit-status.ts'

/** Ends the program. Says what is wrong in one sentence, and what to do next. */
export class CtlError extends Error {
  override readonly name = 'CtlError'
  /** Stable code for programs. */
  readonly code: string
  readonly status: ExitStatus
  readonly advice: readonly string[]
  /** The daemon's answer, if it is one. */
  readonly problem: Problem | undefined
  /** The host of the daemon that failed, unless that is the daemon of the command. */
  readonly host: string | undefined

  constructor(message: string, more: More) {
    super(message, given({ cause: more.cause }))
    this.code = more.code
    this.status = more.status
    this.advice = more.advice ?? []
    this.problem = more.problem
    this.host = more.host
  }

  /** Returns the same error in other words. */
  reworded({ message = this.message, advice = this.advice }: Words): CtlError {
    const { code, status, cause, problem, host } = this
    return new CtlError(message, { code, status, advice, cause, problem, host })
  }
}

type More = {
  readonly code: string
  readonly status: ExitStatus
  readonly advice?: readonly string[]
  readonly cause?: unknown
  readonly problem?: Problem | undefined
  readonly host?: string | undefined
}

type Words = { readonly message?: string; readonly advice?: readonly string[] }

/** Reports a command line that cannot be what was meant. */
export const usageError = (message: string, ...advice: readonly string[]): CtlError =>
  new CtlError(message, { code: 'usage', status: 2, advice })
