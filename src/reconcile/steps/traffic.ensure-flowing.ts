import { subjectOf } from './executor.ts'
import type { Executor } from './executor.ts'

/** Afterwards frames go to the device, and what was held has gone there before them, or is dropped. */
export const ensureFlowing: Executor<'traffic.ensure-flowing'> = async ({ deliver }, context) => {
  const { host, notes } = context
  notes.delivery = await host.traffic.ensureFlowing(subjectOf(context), { deliver })
}
