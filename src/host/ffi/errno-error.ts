import { constants } from 'node:os'
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

/** Returns the errno name of a failed system call; undefined for any other error. */
export const errnoOf = (error: unknown): string | undefined => {
  const { code, errno } = (error ?? {}) as NodeJS.ErrnoException
  if (typeof code !== 'string' || typeof errno !== 'number') return undefined
  // libuv has no name for some errnos, e.g. EDQUOT. Node then says "Unknown system error -122".
  return code.startsWith('Unknown') ? NAMES.get(-errno) : code
}

const NAMES = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))

/** Whether a system call, ours or one of Node's, failed with one of these errnos. */
export const hasErrno = (error: unknown, ...names: readonly string[]): boolean => {
  const name = errnoOf(error)
  return name !== undefined && names.includes(name)
}

/** Returns what `read` returns; undefined if it fails with one of these errnos. Any other failure is thrown. */
export function unlessErrno<T>(read: () => T, ...names: readonly string[]): T | undefined {
  try {
    return read()
  } catch (error) {
    if (hasErrno(error, ...names)) return undefined
    throw error
  }
}
