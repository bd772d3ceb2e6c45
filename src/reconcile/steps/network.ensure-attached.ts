import { assert } from '../../lib/assert.ts'
import type { Executor } from './executor.ts'

/** Afterwards the running monitor holds the VM's tap again. */
export const ensureAttached: Executor<'network.ensure-attached'> = async (step, { host, intent }) => {
  assert(intent.tap !== undefined, 'a device for a VM without network')
  await host.taps.ensureAttached(intent.tap, step.mainPid)
}
