import { fstatSync } from 'node:fs'

/**
 * Returns whether standard output is the journal: systemd names its socket as `device:inode` (systemd.exec(5),
 * JOURNAL_STREAM).
 */
export function isJournal(): boolean {
  const { dev, ino } = fstatSync(1)
  return process.env['JOURNAL_STREAM'] === `${dev}:${ino}`
}
