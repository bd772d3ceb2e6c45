import { ok } from '../lib/result.ts'
import { storeDesired } from './store-desired.ts'
import type { DesiredPower } from '../core/vm/desired.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { CommandContext, CommandResult } from './context.ts'

/** Stores the desired power state. `stopped` is always a hard stop. */
export const setPower = (context: CommandContext, id: VmId, power: DesiredPower): CommandResult =>
  storeDesired(context, id, { reason: `power ${power}`, decide: ({ desired }) => ok({ ...desired, power }) })
