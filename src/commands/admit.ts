import { shortages } from '../core/capacity/capacity.ts'
import type { Commitment } from '../core/capacity/capacity.ts'
import type { CommandContext, Refusal } from './context.ts'

/**
 * Why the host cannot promise `increase` on top of what it has promised, or undefined where it can. Called in the
 * transaction that stores the increase, so two can never be promised the same room.
 */
export function refuseIncrease(
  { store, capacity }: CommandContext,
  increase: Commitment,
): Refusal | undefined {
  const { memoryMib, diskMib } = capacity.allocatable()
  if (increase.memoryMib > 0 && !memoryMib.known) return memoryMib
  if (increase.diskMib > 0 && !diskMib.known) return diskMib
  const short = shortages(store.vms.committed(), increase, {
    // What does not increase is not looked at.
    memoryMib: memoryMib.known ? memoryMib.value : 0,
    diskMib: diskMib.known ? diskMib.value : 0,
  })
  if (short.length === 0) return undefined
  return { code: 'insufficient_capacity', detail: `the host is short of ${short.join(' and of ')}` }
}
