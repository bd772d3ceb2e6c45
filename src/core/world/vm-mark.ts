import type { VmId } from '../ids.ts'

/**
 * Identifies one VM among all that had its id. A controller may use an id again, and a host may get another state
 * directory. Units and disks carry the mark.
 */
export type VmMark = { readonly storeId: string; readonly createdAtMs: number }

/** A mark as read from an object. An object of an older daemon has only a part of it, or none. */
export type FoundMark = { readonly [K in keyof VmMark]: VmMark[K] | undefined }

type MarkedVm = { readonly id: VmId; readonly createdAtMs: number }

/**
 * Returns why an object with this mark does not belong to that VM; undefined if it does. An object without a time
 * belongs to the VM of its store.
 */
export function whyForeign(
  found: FoundMark,
  { id, createdAtMs }: MarkedVm,
  storeId: string,
): string | undefined {
  if (found.storeId !== storeId) {
    const owner = found.storeId === undefined ? 'no state directory' : `the state directory ${found.storeId}`
    return `it belongs to ${owner}, and VM ${id} to ${storeId}`
  }
  if (found.createdAtMs === undefined || found.createdAtMs === createdAtMs) return undefined
  return `it belongs to a VM ${id} of ${time(found.createdAtMs)}, and this one was created at ${time(createdAtMs)}`
}

const time = (ms: number): string => new Date(ms).toISOString()
