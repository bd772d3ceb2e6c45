import { subjectOf } from './executor.ts'
import type { Executor } from './executor.ts'

/** Afterwards the VM's device is gone, and what was known of its traffic before it; a device of someone else stays. */
export const removeTap: Executor<'network.remove-tap'> = async (_step, context) => {
  const { host, record } = context
  await host.traffic.remove(subjectOf(context))
  await host.taps.remove(record.host.device, record.id)
}
