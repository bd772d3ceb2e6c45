/** Bounds of the records and their copies; a part of `limits`. */
export const recordsLimits = {
  /** Copies of the database from before a change of its schema, one for each version. */
  schemaCopiesMax: 3,
  /** For records of an earlier version to be copied and changed at a start. */
  upgradeMs: 30 * 60_000,
  /** Room that "vmhostd backup" leaves free in the state directory, where the daemon writes meanwhile. */
  backupSpareBytes: 64 * 1024 * 1024,
  /** How long "vmhostd backup" waits for a database that is locked. */
  backupBusyMs: 5000,
  /**
   * Revisions that records which are put back do not give out, beyond the newest that is known. The records that they
   * replace may have given them out, and cannot always be read.
   */
  revisionsSkippedByRestore: 1_000_000_000,
  /**
   * How long the daemon waits for a database that is locked, at work and at its start. The event loop is blocked then.
   */
  databaseBusyMs: 20,
  databaseOpenBusyMs: 5000,
  /**
   * How long no other write, or emptying of the log, is tried after one failed, because each may cost the wait above.
   */
  stateRetryMs: 250,
  /** How long no copy of records whose files were removed is tried again after one failed. */
  openRecordsCopyRetryMs: 60_000,
} as const
