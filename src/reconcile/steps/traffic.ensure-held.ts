import { subjectOf } from './executor.ts'
import type { Executor } from './executor.ts'

/** Afterwards frames are held for the guest. */
export const ensureHeld: Executor<'traffic.ensure-held'> = (_step, context) =>
  context.host.traffic.ensureHeld(subjectOf(context))
