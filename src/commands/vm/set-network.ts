import { guestMac } from '../../core/network/tap.ts'
import { err, ok } from '../../lib/result.ts'
import { isStopped, notStopped, storeDesired } from './store-desired.ts'
import { refuseAddresses } from './check-network.ts'
import type { SetNetwork } from '../../core/vm/create.ts'
import type { Network } from '../../core/desired.ts'
import type { MacAddress, VmId } from '../../core/ids.ts'
import type { Addresses } from './check-network.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/**
 * Changes the given members of the network. Bandwidth and firewall belong to the host, and change under a running
 * guest. The addresses are also known inside the guest, so they change only while it is stopped.
 */
export const setNetwork = (context: CommandContext, id: VmId, network: SetNetwork): CommandResult =>
  storeDesired(context, id, {
    reason: 'network',
    decide: (before) => {
      const { desired, host } = before
      const after = changedNetwork(desired.network, network, guestMac(host.userId))
      if (after === undefined) return ok(desired)
      if (!sameForGuest(desired.network, after) && !isStopped(before)) {
        return err(notStopped(before, 'The addresses'))
      }
      const refusal = refuseAddresses(context, id, changedAddresses(desired.network, after))
      return refusal === undefined ? ok({ ...desired, network: after }) : err(refusal)
    },
  })

/**
 * Returns the network after a change, or undefined if there is none. If no MAC address is left, the host chooses one.
 */
function changedNetwork(
  before: Network | undefined,
  change: SetNetwork,
  hostsChoice: MacAddress,
): Network | undefined {
  const entries = Object.entries({ ...before, ...change }).filter(([, value]) => value !== null)
  if (before === undefined && entries.length === 0) return undefined
  return { macAddress: hostsChoice, ...Object.fromEntries(entries) }
}

/**
 * Returns the addresses that must be judged. An address that the VM already has is not judged again, because the ranges
 * may have changed since.
 */
const changedAddresses = (before: Network | undefined, after: Network): Addresses => ({
  ...(after.ipv4Address === undefined || after.ipv4Address === before?.ipv4Address
    ? {}
    : { ipv4Address: after.ipv4Address }),
  ...(after.ipv6Address === undefined || after.ipv6Address === before?.ipv6Address
    ? {}
    : { ipv6Address: after.ipv6Address }),
})

const sameForGuest = (a: Network | undefined, b: Network): boolean =>
  a !== undefined &&
  a.macAddress === b.macAddress &&
  a.ipv4Address === b.ipv4Address &&
  a.ipv6Address === b.ipv6Address
