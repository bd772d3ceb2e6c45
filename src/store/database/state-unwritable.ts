import { HostFault } from '../../core/errors.ts'

/** The records cannot be written now: the disk is full or fails, or another process has locked them. Nothing was stored. */
export class StateUnwritable extends HostFault {
  constructor(cause: unknown) {
    super('state_unwritable', 'writing to the state directory', { cause })
  }
}

/** Words for SQLite's errors, by the lowest byte of the result code (sqlite.org/rescode). */
const UNWRITABLE: ReadonlyMap<number, string> = new Map([
  [5, 'another process has locked the database'],
  [6, 'another process has locked the database'],
  [8, 'the database is read-only'],
  [10, 'the disk failed'],
  [13, 'the disk is full'],
  [14, 'a file of the database cannot be opened'],
])

/** Turns an error of a write into a fault; any other error passes as it is. */
export function unwritableOr(error: unknown): unknown {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown }
  if (code !== 'ERR_SQLITE_ERROR' || typeof errcode !== 'number') return error
  const because = UNWRITABLE.get(errcode & 0xff)
  return because === undefined ? error : new StateUnwritable(new Error(because, { cause: error }))
}
