import type { Probe, Unknown } from '../world/world.ts'

/**
 * Whether a VM may use its memory now. `held`: it never lent it, or has it back. `free`: it may have it back. `short`:
 * it waits in the queue; `place` 1 is the next, and `missingMib` is what the host lacks for this VM alone.
 */
export type MemoryStanding =
  | { readonly kind: 'held' }
  | { readonly kind: 'free' }
  | { readonly kind: 'short'; readonly place: number; readonly missingMib: number }
  | { readonly kind: 'unknown'; readonly because: Unknown }

export const HELD: MemoryStanding = { kind: 'held' }

/**
 * Judges whether a VM that lent `needMib` may have it back. VMs get memory strictly in order, so that a large VM does
 * not wait for ever behind small ones. `heldMib` is the memory of all VMs that have theirs; `ahead` counts the VMs that
 * wait before this one.
 */
export function judgeMemory({
  needMib,
  heldMib,
  allocatable,
  ahead,
}: {
  readonly needMib: number
  readonly heldMib: number
  readonly allocatable: Probe<number>
  readonly ahead: number
}): MemoryStanding {
  if (!allocatable.known) return { kind: 'unknown', because: allocatable }
  const missingMib = Math.max(0, needMib - (allocatable.value - heldMib))
  if (missingMib === 0 && ahead === 0) return { kind: 'free' }
  return { kind: 'short', place: ahead + 1, missingMib }
}
