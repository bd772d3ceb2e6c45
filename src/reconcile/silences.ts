import type { VmId } from '../core/ids.ts'
import type { World } from '../core/world/world.ts'

/** A process that does not answer, and the start of its silence, in milliseconds of the monotonic clock. */
type Silence = { readonly mainPid: number; readonly sinceMs: number }

/**
 * Measures how long monitors have not answered. Only this process keeps it: a new daemon knows of no answer, and counts
 * from its own first look.
 */
export class Silences {
  readonly #silent = new Map<VmId, Silence>()

  /** Records a look; returns the milliseconds since the first look without an answer, or 0 if the monitor answered. */
  note(id: VmId, { unit, monitor }: World, nowMs: number): number {
    // A failed look proves nothing.
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

  /** Forgets a VM that has no worker any more. */
  forget(id: VmId): void {
    this.#silent.delete(id)
  }
}
