import type { StepKind, StepOf } from '../../core/plan/step.ts'
import type { World } from '../../core/plan/world.ts'
import type { Delivery, TrafficSubject } from '../../core/idle/traffic-state.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { VmMark } from '../../core/vm/vm-mark.ts'
import type { Host } from '../../ports/host.ts'
import type { Log } from '../../log/log.ts'
import type { VmInputs } from '../../store/vm-table.ts'
import type { Intent } from '../intent.ts'

/** What became of packets is known once, to whoever delivers them; and of a save, whether it was given up. */
export type StepNotes = { delivery?: Delivery; givenUp?: true }

/** What a step may use. It returns nothing: whether it worked is for the next observation to tell. */
export type StepContext = {
  /** Where a step leaves what no later look could tell; for this one step. */
  readonly notes: StepNotes
  readonly host: Host
  readonly record: VmRecord
  readonly inputs: VmInputs
  readonly intent: Intent
  /** What the look found that the plan was made from. */
  readonly world: World
  readonly log: Log
  readonly signal: AbortSignal
}

export type Executor<K extends StepKind> = (step: StepOf<K>, context: StepContext) => Promise<void>

/** What the objects of this VM carry. */
export const markOf = ({ storeId }: Host, { createdAtMs }: VmRecord): VmMark => ({ storeId, createdAtMs })

/** Whose traffic; asked only of a VM with network. */
export const subjectOf = ({ record: { host } }: Pick<StepContext, 'record'>): TrafficSubject => host
