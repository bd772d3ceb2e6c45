import { getSystemErrorName } from 'node:util'

/** Thrown when the kernel refused a system call of our own. Drivers wrap it in their own fault. */
export class ErrnoError extends Error {
  override readonly name = 'ErrnoError'
  /** The name of the errno, e.g. `ENODEV`. */
  readonly code: string
  /** The errno as a negative number, as in Node's errors. */
  readonly errno: number

  /**
   * @param doing comes before the errno in the message
   * @param errno positive
   * @param words the kernel's additional text, if there is any
   */
  constructor(doing: string, errno: number, words?: string) {
    const code = getSystemErrorName(-errno)
    super(`${doing}: ${code}${words === undefined ? '' : ` (${words})`}`)
    this.code = code
    this.errno = -errno
  }
}

/** Whether a system call, ours or one of Node's, failed with one of these errnos. */
export const hasErrno = (error: unknown, ...codes: readonly string[]): boolean =>
  error instanceof Error && 'code' in error && codes.includes(String(error.code))
