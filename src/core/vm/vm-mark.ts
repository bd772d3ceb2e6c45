import type { VmId } from './ids.ts'

/**
 * Names one VM among all that had its id: a controller may give an id again, and a host may get another state directory.
 * Units and disks carry it.
 */
export type VmMark = { readonly storeId: string; readonly createdAtMs: number }

/** A mark as an object shows it. An object of an older daemon has a part of it, or none. */
export type FoundMark = { readonly [K in keyof VmMark]: VmMark[K] | undefined }

type MarkedVm = { readonly id: VmId; readonly createdAtMs: number }

/** Why an object with this mark is not that VM's; undefined if it is. An object without the time is its store's VM's. */
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
