/**
 * What a VM commits for as long as it exists, asleep and stopped ones included: a start or a wake can then never be refused
 * for want of memory or disk. Console places are held by VMs that run and never sleep.
 */
export type Commitment = {
  readonly memoryMib: number
  readonly diskMib: number
  readonly consolePlaces: number
}

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

const KINDS = {
  memoryMib: ['memory', 'MiB'],
  diskMib: ['disk', 'MiB'],
  consolePlaces: ['console places', 'places'],
} as const satisfies Record<keyof Commitment, readonly [string, string]>

export type Shortage = { readonly kind: keyof Commitment; readonly words: string }

/**
 * What an increase is short of, in words such as "memory by 512 MiB (1024 MiB more asked for, 512 MiB free of 8192 MiB)"; empty
 * if the host can hold it. What does not increase is not looked at: a host that is over-committed still takes it.
 */
export function shortages(
  committed: Commitment,
  increase: Commitment,
  allocatable: Allocatable,
): readonly Shortage[] {
  return (Object.keys(KINDS) as (keyof Commitment)[]).flatMap((kind) => {
    const free = allocatable[kind] - committed[kind]
    const missing = increase[kind] - free
    if (increase[kind] <= 0 || missing <= 0) return []
    const [name, unit] = KINDS[kind]
    const words = `${name} by ${missing} ${unit} (${increase[kind]} ${unit} more asked for, ${Math.max(0, free)} ${unit} free of ${allocatable[kind]} ${unit})`
    return { kind, words }
  })
}
