import { guestRuleOf } from '../../core/network/tap.ts'
import { assert } from '../../lib/assert.ts'
import type { Executor } from './executor.ts'

/** Afterwards the table is in force and knows the guest. */
export const ensureFirewall: Executor<'network.ensure-firewall'> = async (_step, { host, intent }) => {
  assert(intent.tap !== undefined, 'a firewall rule for a VM without network')
  await host.firewall.ensureGuest(guestRuleOf(intent.tap))
}
