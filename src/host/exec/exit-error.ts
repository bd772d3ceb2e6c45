import { unreachable } from '../../lib/assert.ts'

/** The end of a program that did not end as its caller wanted. */
export type Ending =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'signalled'; readonly signal: string }
  | { readonly kind: 'deadline'; readonly timeoutMs: number }
  | { readonly kind: 'too-much-output'; readonly outputBytesMax: number }
  /** fork or exec failed for lack of a resource, such as memory or process ids. */
  | { readonly kind: 'not-started'; readonly cause: Error }

/** Enough for the lines in which a tool says what is wrong. */
const STDERR_TAIL_CHARACTERS = 1000

/** Thrown when a program failed. The message has its name and last words, and never its arguments. */
export class ExitError extends Error {
  override readonly name = 'ExitError'
  readonly program: string
  readonly ending: Ending
  /** The exit status; undefined if the program did not exit by itself. */
  readonly code: number | undefined
  /** The signal that ended the program, if we did not send it. */
  readonly signal: string | undefined
  /** The end of its standard error. */
  readonly stderr: string

  constructor(argv: readonly [string, ...string[]], ending: Ending, stderr: string) {
    const tail = stderr.trim().slice(-STDERR_TAIL_CHARACTERS)
    const words = `${argv[0]} ${describe(ending)}`
    super(
      tail === '' ? words : `${words}: ${tail}`,
      ending.kind === 'not-started' ? { cause: ending.cause } : {},
    )
    this.program = argv[0]
    this.ending = ending
    this.code = ending.kind === 'exited' ? ending.code : undefined
    this.signal = ending.kind === 'signalled' ? ending.signal : undefined
    this.stderr = tail
  }
}

function describe(ending: Ending): string {
  switch (ending.kind) {
    case 'exited':
      return `exited with status ${ending.code}`
    case 'signalled':
      return `was ended by ${ending.signal}`
    case 'deadline':
      return `was killed after ${ending.timeoutMs} ms`
    case 'too-much-output':
      return `was killed after writing more than ${ending.outputBytesMax} bytes`
    case 'not-started':
      return 'could not be started'
    default:
      return unreachable(ending)
  }
}
