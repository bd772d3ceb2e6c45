import type { FaultCode } from '../errors.ts'
import type { Compute } from '../desired.ts'

/** A guest's memory and devices in a file, from which a monitor can resume the guest. */
export type SavedState =
  | { readonly kind: 'absent' }
  /** Left from a save that did not finish; never restored. */
  | { readonly kind: 'unfinished' }
  | SavedGuest
  /** Present, but not fit for this VM on this host. It is kept: only a stop or a deletion removes it. */
  | { readonly kind: 'unusable'; readonly code: FaultCode; readonly because: string }

/** Returns whether the pool has a saved guest, fit to be restored or not. */
export const isSaved = ({ kind }: SavedState): boolean => kind === 'present' || kind === 'unusable'

export type SavedGuest = {
  readonly kind: 'present'
  readonly savedAtMs: number
  /** Size of the file in the pool, without free memory; rounded up. */
  readonly sizeMib: number
  /** The guest's memory. */
  readonly memoryMib: number
  readonly vcpus: number
  readonly form: SaveForm
}

export type UnusableState = Extract<SavedState, { readonly kind: 'unusable' }>

/**
 * How a file holds a guest's memory. `mapped`: each page has its own place, so free memory is a hole. `stream`: the
 * pages follow one another, as earlier versions of monitors write them. `backing`: the guest's memory from its first
 * page to its last, which the monitor goes on reading while the restored guest runs.
 * A restore must know which form it reads.
 */
export type SaveForm = 'mapped' | 'stream' | 'backing'

/** The program that wrote a saved state, and that can read it. */
export type SavingMonitor = {
  /** Its name without a path, e.g. `qemu-system-x86_64`. */
  readonly program: string
  /** Its version as it reports it, e.g. `10.0.13`. */
  readonly version: string
  readonly accelerator: string
  /**
   * The format of its states, e.g. `10.0.0`, if it numbers them apart from its releases. It reads those of the same
   * first number that are no newer.
   */
  readonly format?: string
  /** The form that it writes. */
  readonly form: SaveForm
}

/** The conditions of a save, known before its file is inspected. */
export type SaveTerms = {
  readonly savedAtMs: number
  readonly monitor: SavingMonitor
  readonly compute: Pick<Compute, 'cpuMillicores' | 'memoryMib'>
}

/** A saved guest, as another host must know it before its memory comes. */
export type MovedMemory = {
  /** The length of the file, with its holes. */
  readonly lengthBytes: number
  readonly terms: SaveTerms
}
