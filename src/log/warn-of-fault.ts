import { HostFault } from '../core/errors.ts'
import { errorChain } from './error-chain.ts'
import type { Log } from './log.ts'

/** Logs a fault that the caller continues after; throws any other error, which is a bug. */
export function warnOfFault(log: Log, error: unknown, message: string, fields: object = {}): void {
  if (!(error instanceof HostFault)) throw error
  log.warn({ ...fields, code: error.code, error: errorChain(error) }, message)
}
