import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import { subjectOf } from './executor.ts'
import type { Executor, StepContext } from './executor.ts'

/** Afterwards the VM's device is gone, and what was known of its traffic before it; a device of someone else stays. */
export const removeTap: Executor<'network.remove-tap'> = async (_step, context) => {
  const { host, record } = context
  await forgetTraffic(context)
  await host.taps.remove(record.host.device, record.id)
}

/** What is left of it is a few bytes in a map, and no reason to keep a VM that shall be gone. */
async function forgetTraffic(context: StepContext): Promise<void> {
  try {
    await context.host.traffic.remove(subjectOf(context))
  } catch (error) {
    if (!(error instanceof HostFault)) throw error
    context.log.warn({ code: error.code, error: errorChain(error) }, 'the traffic of a VM was not forgotten')
  }
}
