/** What a VM commits for as long as it exists, whatever its state: a start or a wake can then never be refused. */
export type Commitment = { readonly memoryMib: number; readonly diskMib: number }

/** What all VMs of a host together may commit. */
export type Allocatable = Commitment

/** `totalMib` of memory less the reserve; never below 0. */
export const allocatableMemoryMib = (totalMib: number, reserveMib: number): number =>
  Math.max(0, totalMib - reserveMib)

/** The pool's size times the configured overcommit, less the reserve; never below 0. */
export const allocatableDiskMib = (
  totalMib: number,
  { overcommit, reserveMib }: { readonly overcommit: number; readonly reserveMib: number },
): number => Math.max(0, Math.floor(totalMib * overcommit) - reserveMib)

const WORDS = { memoryMib: 'memory', diskMib: 'disk' } as const satisfies Record<keyof Commitment, string>

/**
 * What an increase is short of, as "memory by 512 MiB (1024 MiB more asked for, 512 MiB free of 8192 MiB)"; empty where the
 * host can hold it. What does not increase is not looked at: a host that is over-committed still takes it.
 */
export function shortages(
  committed: Commitment,
  increase: Commitment,
  allocatable: Allocatable,
): readonly string[] {
  return (Object.keys(WORDS) as (keyof Commitment)[]).flatMap((kind) => {
    const free = allocatable[kind] - committed[kind]
    const missing = increase[kind] - free
    if (increase[kind] <= 0 || missing <= 0) return []
    return `${WORDS[kind]} by ${missing} MiB (${increase[kind]} MiB more asked for, ${Math.max(0, free)} MiB free of ${allocatable[kind]} MiB)`
  })
}
