/** Policies that follow from the configuration, in the form that core and the drivers take. */
import { canonicalAddress } from '../core/network/address.ts'
import type { Config } from '../config/config.ts'
import type { FirewallPolicy } from '../core/network/ruleset.ts'
import type { OutboundPolicy } from '../core/outbound/outbound-policy.ts'

/** Returns the policy for all guests of this host. */
export function firewallPolicyOf({ network }: Config): FirewallPolicy {
  const services = (protocol: 'tcp' | 'udp', ports: readonly number[]) =>
    ports.map((port) => ({ protocol, port }))
  return {
    guestToGuest: !network.isolateGuests,
    inboundDefault: network.inboundDefault,
    hostServices: [...services('tcp', network.hostPortsTcp), ...services('udp', network.hostPortsUdp)],
    masquerade: network.masquerade ? ['ipv4', 'ipv6'] : [],
    connectionsMax: network.guestConnectionsMax,
  }
}

/** Returns which addresses the daemon may connect to when its controller names a URL. */
export const outboundPolicyOf = ({
  objectStore,
  network,
}: Pick<Config, 'objectStore' | 'network'>): OutboundPolicy => ({
  allowHttp: objectStore.allowHttp,
  allowedHosts: objectStore.allowedHosts.map((host) => host.toLowerCase()),
  allowedNetworks: objectStore.allowedNetworks,
  guestRanges: network.guestRanges,
})

/** Returns the name servers of guests, each in its canonical form. */
export const nameServersOf = ({ network }: Pick<Config, 'network'>): readonly string[] =>
  network.nameServers.map((address) => canonicalAddress(address) ?? address)
