import type { ExitStatus } from './exit-status.ts'

/** Ends the program. Says what is wrong in one sentence, and what to do next. */
export class CtlError extends Error {
  override readonly name = 'CtlError'
  /** Stable code for programs. */
  readonly code: string
  readonly status: ExitStatus
  readonly advice: readonly string[]

  constructor(
    message: string,
    more: { code: string; status: ExitStatus; advice?: readonly string[]; cause?: unknown },
  ) {
    super(message, more.cause === undefined ? {} : { cause: more.cause })
    this.code = more.code
    this.status = more.status
    this.advice = more.advice ?? []
  }
}

/** Reports a command line that cannot be what was meant. */
export const usageError = (message: string, ...advice: readonly string[]): CtlError =>
  new CtlError(message, { code: 'usage', status: 2, advice })
