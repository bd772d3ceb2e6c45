import type { VmRecord } from './record.ts'

/**
 * Whether a stop was accepted that is not carried out yet. It is carried out before any later start, whatever power is
 * desired meanwhile.
 */
export const owesStop = ({ stops }: Pick<VmRecord, 'stops'>): boolean => stops.accepted > stops.carriedOut

/** Whether the guest that may be there now must end. */
export const mustEnd = (record: Pick<VmRecord, 'stops' | 'deleting' | 'desired'>): boolean =>
  record.deleting || record.desired.power === 'stopped' || owesStop(record)
