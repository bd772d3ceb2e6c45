import type { FaultCode } from '../errors.ts'
import type { Compute } from '../vm/desired.ts'

/** A guest's memory and devices in a file, from which a monitor goes on where it stood. */
export type SavedState =
  | { readonly kind: 'absent' }
  /** Left of a save that did not come to its end; never restored from. */
  | { readonly kind: 'unfinished' }
  | SavedGuest
  /** There, and not fit for this VM on this host. Kept: only a stop or a deletion removes it. */
  | { readonly kind: 'unusable'; readonly code: FaultCode; readonly because: string }

export type SavedGuest = {
  readonly kind: 'present'
  readonly savedAtMs: number
  /** What the file takes in the pool: free memory is not in it. Rounded up. */
  readonly sizeMib: number
  /** The guest's memory. */
  readonly memoryMib: number
  readonly vcpus: number
  readonly form: SaveForm
}

/**
 * How a file holds a guest's memory: `mapped` gives each page a place of its own, so free memory is a hole; a `stream` holds
 * the pages one after another, as monitors of earlier versions write them. A restore must know which one it reads.
 */
export type SaveForm = 'mapped' | 'stream'

/** The program that wrote a saved state, as it must be to read it. */
export type SavingMonitor = {
  /** Its name without a path, e.g. `qemu-system-x86_64`. */
  readonly program: string
  /** As it told it itself, e.g. `10.0.13`. */
  readonly version: string
  readonly accelerator: string
  /** Which it writes. */
  readonly form: SaveForm
}

/** What a save is of, known before its file is looked at. */
export type SaveTerms = {
  readonly savedAtMs: number
  readonly monitor: SavingMonitor
  readonly compute: Pick<Compute, 'cpuMillicores' | 'memoryMib'>
}
