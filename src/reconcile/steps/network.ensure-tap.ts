import { assert } from '../../lib/assert.ts'
import type { Executor } from './executor.ts'

/** Afterwards the tap is up, with gateway addresses, routes to the guest and permanent neighbours. */
export const ensureTap: Executor<'network.ensure-tap'> = async (_step, { host, intent }) => {
  assert(intent.tap !== undefined, 'a tap for a VM without network')
  await host.taps.ensure(intent.tap)
}
