import { MAINTENANCE_STATES, SCHEDULABLE } from '../../core/maintenance/maintenance.ts'
import { given } from '../../lib/given.ts'
import { Meta } from '../database/meta.ts'
import { MAINTENANCE, MAINTENANCE_REVISION } from '../maintenance/maintenance-row.ts'
import { hasColumn } from '../database/columns.ts'
import { readRecords } from '../database/read-records.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { Maintenance } from '../../core/maintenance/maintenance.ts'

/**
 * The state of the host once records are put back. `present`: the state that it has now, because that is the host's and
 * not a VM's. `file`: the present records do not say it, and it is as in the file. `undrained`: neither can be taken
 * over, because the file says drained, which would end guests, or cannot be read. The host is cordoned then.
 */
export type MaintenanceAfter = {
  readonly from: 'present' | 'file' | 'undrained'
  readonly maintenance: Maintenance
}

/** The state of the host in some records, and its revision. */
export type StoredMaintenance = { readonly maintenance: Maintenance; readonly revision: number }

/** Reads the state of the host from records of any version; undefined if they do not say one that this build knows. */
export function readMaintenance(db: DatabaseSync): StoredMaintenance | undefined {
  if (!hasColumn(db, 'meta', 'value')) return undefined
  const meta = new Meta(db)
  const json = meta.get(MAINTENANCE)
  if (json === undefined) return { maintenance: SCHEDULABLE, revision: 0 }
  try {
    const maintenance = JSON.parse(json) as Maintenance
    if (!MAINTENANCE_STATES.includes(maintenance.state)) return undefined
    return { maintenance, revision: Number(meta.get(MAINTENANCE_REVISION) ?? 0) }
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/**
 * Reads the state of the host from a file with records, which may be in use. Undefined if the file is not there, cannot
 * be read, or does not say a state that this build knows.
 */
export function readMaintenanceOf(path: string): StoredMaintenance | undefined {
  try {
    return readRecords(path, readMaintenance)
  } catch {
    return undefined
  }
}

/** Returns the state of a host whose records are put back. */
export function maintenanceAfter(
  present: StoredMaintenance | undefined,
  file: StoredMaintenance | undefined,
): MaintenanceAfter {
  if (present !== undefined) return { from: 'present', maintenance: present.maintenance }
  if (file !== undefined && file.maintenance.state !== 'drained')
    return { from: 'file', maintenance: file.maintenance }
  return {
    from: 'undrained',
    maintenance: { state: 'cordoned', ...given({ reason: file?.maintenance.reason }) },
  }
}

/**
 * Stores the state of the host within records that are put back. The state of the present records keeps its time and
 * its revision. If the host is cordoned instead, that begins now, with the revision in `own`, which no reader knows.
 */
export function keepMaintenance(
  db: DatabaseSync,
  present: StoredMaintenance | undefined,
  own: { readonly nowMs: number; readonly revision: number },
): void {
  const { from, maintenance } = maintenanceAfter(present, readMaintenance(db))
  if (from === 'file') return
  const meta = new Meta(db)
  const kept = from === 'present' ? maintenance : { ...maintenance, sinceMs: own.nowMs }
  meta.set(MAINTENANCE, JSON.stringify(kept))
  meta.set(MAINTENANCE_REVISION, String(present?.revision ?? own.revision))
}
