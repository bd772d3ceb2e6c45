import { warnOfFault } from '../../log/log.ts'
import type { StepContext } from './executor.ts'

/** Forgets the traffic of a VM that must go. A failure leaves only a few bytes in a map, so it must not keep the VM. */
export async function forgetTraffic({
  host,
  record,
  log,
}: Pick<StepContext, 'host' | 'record' | 'log'>): Promise<void> {
  try {
    await host.traffic.remove(record.host)
  } catch (error) {
    warnOfFault(log, error, 'traffic of the VM not forgotten')
  }
}
