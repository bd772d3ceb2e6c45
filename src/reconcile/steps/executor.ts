import type { StepKind, StepOf } from '../../core/plan/step.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Host } from '../../ports/host.ts'
import type { VmInputs } from '../../store/vm-table.ts'
import type { Intent } from '../intent.ts'

/** What a step may use. It returns nothing: whether it worked is for the next observation to tell. */
export type StepContext = {
  readonly host: Host
  readonly record: VmRecord
  readonly inputs: VmInputs
  readonly intent: Intent
  readonly storeId: string
  readonly signal: AbortSignal
}

export type Executor<K extends StepKind> = (step: StepOf<K>, context: StepContext) => Promise<void>
