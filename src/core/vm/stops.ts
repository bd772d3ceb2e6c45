import type { VmRecord } from './record.ts'

/**
 * Returns whether an accepted stop is not carried out yet. It is carried out before any later start, whatever power is
 * desired meanwhile.
 */
export const owesStop = ({ stops }: Pick<VmRecord, 'stops'>): boolean => stops.accepted > stops.carriedOut

/** Returns whether a guest that may exist now must end. */
export const mustEnd = (record: Pick<VmRecord, 'stops' | 'deleting' | 'desired'>): boolean =>
  record.deleting || record.desired.power === 'stopped' || owesStop(record)
