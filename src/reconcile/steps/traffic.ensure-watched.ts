import { subjectOf } from './executor.ts'
import type { Executor } from './executor.ts'

/** Afterwards our program counts what goes out of the VM's device. */
export const ensureWatched: Executor<'traffic.ensure-watched'> = (_step, context) =>
  context.host.traffic.ensureWatched(subjectOf(context))
