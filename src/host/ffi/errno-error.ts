import { getSystemErrorName } from 'node:util'

/** A system call made by ourselves that the kernel refused. Drivers wrap it in a fault of their own. */
export class ErrnoError extends Error {
  override readonly name = 'ErrnoError'
  /** The name of the errno, e.g. `ENODEV`. */
  readonly code: string
  /** Below 0, as in Node's errors. */
  readonly errno: number

  /** `doing` stands before the errno; `words` are what the kernel added to it, if anything. `errno` is positive. */
  constructor(doing: string, errno: number, words?: string) {
    const code = getSystemErrorName(-errno)
    super(`${doing}: ${code}${words === undefined ? '' : ` (${words})`}`)
    this.code = code
    this.errno = -errno
  }
}

/** Whether a system call failed with one of these, be it ours or one of Node's. */
export const hasErrno = (error: unknown, ...codes: readonly string[]): boolean =>
  error instanceof Error && 'code' in error && codes.includes(String(error.code))
