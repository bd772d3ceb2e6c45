import type { VmId } from '../core/ids.ts'

/** A state in which a VM waits: since when by its record, and the first look at the wait by the monotonic clock. */
type Wait = { readonly stateSinceMs: number; readonly firstLookMs: number }

/**
 * Measures by the monotonic clock how long VMs have waited in their state, because the host's clock may be set. Only
 * this process keeps it: a new daemon counts from its own first look.
 */
export class Waits {
  readonly #waits = new Map<VmId, Wait>()

  /** Notes a look at a VM that waits; returns the milliseconds since the first look in the same state. */
  note(id: VmId, stateSinceMs: number, monotonicMs: number): number {
    const known = this.#waits.get(id)
    const wait = known?.stateSinceMs === stateSinceMs ? known : { stateSinceMs, firstLookMs: monotonicMs }
    this.#waits.set(id, wait)
    return monotonicMs - wait.firstLookMs
  }

  /** Forgets a VM that has no worker any more. */
  forget(id: VmId): void {
    this.#waits.delete(id)
  }
}
