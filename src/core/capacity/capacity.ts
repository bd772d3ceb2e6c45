/**
 * The commitment of a VM for as long as it exists, even while it sleeps or is stopped. So a start or a wake is never
 * refused for lack of memory or disk. Only VMs that run and never sleep hold console places.
 */
export type Commitment = {
  readonly memoryMib: number
  readonly diskMib: number
  readonly consolePlaces: number
}

/** The most that all VMs of a host together may commit. */
export type Allocatable = Commitment

/** Returns `totalMib` of memory less the reserve; never below 0. */
export const allocatableMemoryMib = (totalMib: number, reserveMib: number): number =>
  Math.max(0, totalMib - reserveMib)

/** Returns the pool's size times the configured overcommit, less the reserve; never below 0. */
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
 * Returns what the host lacks for an increase, in words such as "memory by 512 MiB (1024 MiB more asked for, 512 MiB
 * free of 8192 MiB)"; empty if the host can hold it. A part that does not increase is not checked, so an over-committed
 * host still accepts it.
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
