import type { StepKind, StepOf } from '../../core/plan/step.ts'
import type { VmInputs } from '../../core/vm/create.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Delivery } from '../../core/world/network-state.ts'
import type { World, VmMark } from '../../core/world/world.ts'
import type { Log } from '../../log/log.ts'
import type { Host } from '../../ports/host.ts'
import type { Intent } from '../intent.ts'
import type { MemoryRoom } from '../memory-room.ts'

/**
 * Results that no later look can show: only the step that delivers packets knows their number, and only the save knows
 * whether it was given up.
 */
export type StepNotes = { delivery?: Delivery; givenUp?: true }

/** The context of a step. A step returns nothing, because the next look shows whether it worked. */
export type StepContext = {
  /** Takes what no later look can show, for this one step. */
  readonly notes: StepNotes
  readonly host: Host
  readonly record: VmRecord
  readonly inputs: VmInputs
  readonly intent: Intent
  /** The result of the look from which the plan was made. */
  readonly world: World
  readonly memory: Pick<MemoryRoom, 'take'>
  readonly log: Log
  readonly signal: AbortSignal
  /** Also aborted when the guest must end now. */
  readonly guestMustEnd: AbortSignal
  /** Aborted when the pass no longer waits for the step. Other steps may act on the guest from then on. */
  readonly abandoned: AbortSignal
}

export type Executor<K extends StepKind> = (step: StepOf<K>, context: StepContext) => Promise<void>

/** Returns the mark that the objects of this VM carry. */
export const markOf = ({ storeId }: Host, { createdAtMs }: VmRecord): VmMark => ({ storeId, createdAtMs })
