import { getSystemErrorMessage } from 'node:util'
import { HostFault } from '../../core/errors.ts'
import { errnoOf, hasErrno } from '../ffi/errno-error.ts'
import { NoAnswer } from './bounded-calls.ts'
import type { FaultCode } from '../../core/errors.ts'

const CODES: Readonly<Record<string, FaultCode>> = {
  ENOSPC: 'storage_full',
  EDQUOT: 'storage_full',
  EROFS: 'storage_read_only',
}

/** Better words than the kernel's. Files of the pool have this errno only when `openOfVm` met a lease. */
const WORDS: Readonly<Record<string, string>> = {
  EAGAIN: 'another process holds a lease on the file',
}

/**
 * Turns a failed operation on the pool into a fault, whose code depends on the errno. Faults and bugs are returned as
 * they are. The cause omits the path that Node puts into its message: the controller sees faults, and must not see host
 * paths.
 */
export function storageFault(error: unknown, doing: string, code?: FaultCode): unknown {
  if (error instanceof NoAnswer) return new HostFault(code ?? 'storage_failed', doing, { cause: error.cause })
  const name = errnoOf(error)
  if (name === undefined) return error
  const { errno = 0 } = error as NodeJS.ErrnoException
  const cause = new Error(`${name}: ${WORDS[name] ?? getSystemErrorMessage(errno)}`)
  return new HostFault(code ?? CODES[name] ?? 'storage_failed', doing, { cause })
}

/** Returns the result of `look`; undefined if the object itself does not exist. Any other failure is thrown. */
export async function ifThere<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined
    throw error
  }
}

/** Runs a task on the pool; turns its failure into a fault as {@link storageFault} does. */
export async function orStorageFault<T>(doing: string, task: () => Promise<T>, code?: FaultCode): Promise<T> {
  try {
    return await task()
  } catch (error) {
    throw storageFault(error, doing, code)
  }
}
