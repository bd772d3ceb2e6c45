/** A store that cannot be written, because another connection has locked its database. */
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../src/config/limits.ts'

/** Locks the store in a directory. Returns a function that unlocks it and resolves when a write is tried again. */
export function lockStore(directory: string): () => Promise<void> {
  const other = new DatabaseSync(`${directory}/vmhostd.db`)
  other.exec('BEGIN IMMEDIATE')
  return async () => {
    other.exec('ROLLBACK')
    other.close()
    await delay(limits.stateRetryMs)
  }
}
