import type { Hindrance } from '../errors.ts'
import type { Probe } from '../world/world.ts'

/**
 * Whether a VM may use its memory now. `held`: it never lent it, or has it back. `free`: it may have it back. `short`:
 * it waits in the queue; `place` 1 is the next, and `missingMib` is what the host lacks for this VM alone. `blocked`:
 * it does not wait, because nothing is known, or because it needs more than all VMs together may have.
 */
export type MemoryStanding =
  | { readonly kind: 'held' }
  | { readonly kind: 'free' }
  | { readonly kind: 'short'; readonly place: number; readonly missingMib: number }
  | { readonly kind: 'blocked'; readonly because: Hindrance }

export const HELD: MemoryStanding = { kind: 'held' }

/**
 * Judges whether a VM that lent `needMib` may have it back. VMs get memory strictly in order, so that a large VM does
 * not wait for ever behind small ones. A VM that can never have its memory must not keep the others waiting. `heldMib`
 * is the memory of all VMs that have theirs; `ahead` counts the VMs that wait before this one.
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
  if (!allocatable.known) return { kind: 'blocked', because: allocatable }
  if (needMib > allocatable.value) {
    const message = `it needs ${needMib} MiB of memory, and all VMs of this host together may have ${allocatable.value} MiB`
    return { kind: 'blocked', because: { code: 'memory_exceeds_host', retry: 'backoff', message } }
  }
  const missingMib = Math.max(0, needMib - (allocatable.value - heldMib))
  if (missingMib === 0 && ahead === 0) return { kind: 'free' }
  return { kind: 'short', place: ahead + 1, missingMib }
}
