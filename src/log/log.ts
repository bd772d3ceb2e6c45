/** The logger that rooms use: one line with named fields. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** Returns a logger whose every line carries `fields`. */
  child(fields: object): Log
}

/** Swallows everything; for tests and tools. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
}
