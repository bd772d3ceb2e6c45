import { warnOfFault } from '../../log/log.ts'
import { subjectOf } from './executor.ts'
import type { StepContext } from './executor.ts'

/** Forgets the traffic of a VM that must go. A failure leaves only a few bytes in a map, so it must not keep the VM. */
export async function forgetTraffic(context: Pick<StepContext, 'host' | 'record' | 'log'>): Promise<void> {
  try {
    await context.host.traffic.remove(subjectOf(context))
  } catch (error) {
    warnOfFault(context.log, error, 'traffic of the VM not forgotten')
  }
}
