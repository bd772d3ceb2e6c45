/** SQLite's primary result codes that mean something to this daemon (sqlite.org/rescode). */
export const SQLITE_PERM = 3
export const SQLITE_BUSY = 5
export const SQLITE_LOCKED = 6
export const SQLITE_READONLY = 8
export const SQLITE_IOERR = 10
export const SQLITE_CORRUPT = 11
export const SQLITE_FULL = 13
export const SQLITE_CANTOPEN = 14
export const SQLITE_NOTADB = 26

/** Extended codes of SQLITE_IOERR for the index of the write-ahead log, which is a file of its own. */
export const SQLITE_IOERR_SHMOPEN = 4618
export const SQLITE_IOERR_SHMSIZE = 4874
export const SQLITE_IOERR_SHMMAP = 5386

/** Returns the extended result code of an error of SQLite; undefined for any other error. */
export function resultCodeOf(error: unknown): number | undefined {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown }
  return code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number' ? errcode : undefined
}

/** Returns the primary result code: the lowest byte of the extended one. */
export function primaryCodeOf(error: unknown): number | undefined {
  const code = resultCodeOf(error)
  return code === undefined ? undefined : code & 0xff
}
