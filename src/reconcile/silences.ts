import type { VmId } from '../core/vm/ids.ts'
import type { World } from '../core/plan/world.ts'

/** A process that does not answer, and since when, in milliseconds of the monotonic clock. */
type Silence = { readonly mainPid: number; readonly sinceMs: number }

/**
 * For how long monitors have not answered. Kept by this process alone: a daemon that was just started knows of no answer,
 * and counts from its own first look.
 */
export class Silences {
  readonly #silent = new Map<VmId, Silence>()

  /** Takes note of a look, and returns the milliseconds since the first look that found no answer; 0 where one came. */
  note(id: VmId, { unit, monitor }: World, nowMs: number): number {
    // A look that failed tells nothing.
    if (!unit.known || !monitor.known) return 0
    if (unit.value.kind !== 'active' || monitor.value.kind !== 'silent') {
      this.#silent.delete(id)
      return 0
    }
    const { mainPid } = unit.value
    const known = this.#silent.get(id)
    const silence = known?.mainPid === mainPid ? known : { mainPid, sinceMs: nowMs }
    this.#silent.set(id, silence)
    return nowMs - silence.sinceMs
  }

  /** The VM has no worker any more. */
  forget(id: VmId): void {
    this.#silent.delete(id)
  }
}
