import { constants } from 'node:os'
import { getSystemErrorMessage } from 'node:util'
import { HostFault } from '../../core/errors.ts'
import { NoAnswer } from './bounded-calls.ts'
import type { FaultCode } from '../../core/errors.ts'

/** The errno name of a failed system call; undefined for any other error. */
export const errnoOf = (error: unknown): string | undefined => {
  const { code, errno } = (error ?? {}) as NodeJS.ErrnoException
  if (typeof code !== 'string' || typeof errno !== 'number') return undefined
  // libuv has no name for some, e.g. EDQUOT, and Node then says "Unknown system error -122".
  return code.startsWith('Unknown') ? NAMES.get(-errno) : code
}

const NAMES = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))

const CODES: Readonly<Record<string, FaultCode>> = {
  ENOSPC: 'storage_full',
  EDQUOT: 'storage_full',
  EROFS: 'storage_read_only',
}

/**
 * A failed operation on the pool as a fault, its code chosen by errno. Faults and bugs pass as they are. The cause is
 * told without the path that Node puts into its message: faults are shown to the controller, and host paths are not.
 */
export function storageFault(error: unknown, doing: string, code?: FaultCode): unknown {
  if (error instanceof NoAnswer) return new HostFault(code ?? 'storage_failed', doing, { cause: error.cause })
  const name = errnoOf(error)
  if (name === undefined) return error
  const { errno = 0 } = error as NodeJS.ErrnoException
  const cause = new Error(`${name}: ${getSystemErrorMessage(errno)}`)
  return new HostFault(code ?? CODES[name] ?? 'storage_failed', doing, { cause })
}

/** What `look` finds, or undefined where the object itself is not there; any other failure passes. */
export async function ifThere<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  }
}
