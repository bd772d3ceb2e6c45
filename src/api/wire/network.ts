import { Type } from 'typebox'
import { closed } from '../../lib/schema-check.ts'
import { limits } from '../../config/limits.ts'
import { MAC_ADDRESS_PATTERN } from '../../core/ids.ts'
import { CIDR_PATTERN, PORTS_PATTERN } from './values.ts'
import { orNull } from './or-null.ts'
import type { Static } from 'typebox'

const macAddressSchema = Type.String({ pattern: MAC_ADDRESS_PATTERN, examples: ['02:00:5e:10:00:01'] })
const ipv4Schema = Type.String({ format: 'ipv4', examples: ['192.0.2.10'] })
const ipv6Schema = Type.String({ format: 'ipv6', examples: ['2001:db8::10'] })
const ipv6PrefixSchema = (otherwise: string) =>
  Type.String({
    pattern: CIDR_PATTERN,
    description:
      'An IPv6 network that the host routes to the guest, by way of its IPv6 address, which it then needs. The length is ' +
      `${limits.guestPrefixBitsMin} to ${limits.guestPrefixBitsMax}. The guest gives the addresses away itself, e.g. to containers. ` +
      `Takes effect on a running VM. ${otherwise}`,
    examples: ['2001:db8:1:42::/64'],
  })
const bandwidthSchema = (description: string) =>
  Type.Optional(
    Type.Integer({
      minimum: limits.bandwidthMbitPerSecondMin,
      maximum: limits.bandwidthMbitPerSecondMax,
      description,
      examples: [100],
    }),
  )

/** Members of a rule of either direction. */
const ruleMembers = {
  protocol: Type.Enum(['tcp', 'udp', 'icmp', 'any'], {
    type: 'string',
    description: '`icmp` is ICMPv6 to an IPv6 address.',
  }),
  ports: Type.Optional(
    Type.Array(Type.String({ pattern: PORTS_PATTERN }), {
      maxItems: limits.rulePortsMax,
      description: 'Ports or ranges of them, for `tcp` and `udp` only. If absent, any.',
      examples: [['443', '8000-8100']],
    }),
  ),
}

const networksSchema = Type.Optional(
  Type.Array(Type.String({ pattern: CIDR_PATTERN }), {
    maxItems: limits.ruleNetworksMax,
    description: 'Networks, of both families mixed. If absent, any.',
    examples: [['192.0.2.0/24', '2001:db8::/32']],
  }),
)

const inboundRuleSchema = Type.Object(
  { ...ruleMembers, sources: networksSchema },
  { ...closed, description: 'Connections that others may open to the guest.' },
)

const outboundRuleSchema = Type.Object(
  {
    action: Type.Enum(['allow', 'deny'], { type: 'string' }),
    ...ruleMembers,
    destinations: networksSchema,
  },
  { ...closed, description: 'Connections that the guest may open to others, or may not.' },
)

const bandwidthsSchema = (otherwise: string) =>
  Type.Object(
    {
      receive_mbit_per_second: bandwidthSchema(
        'Maximum to the guest, Ethernet headers included; excess packets are queued, then dropped.',
      ),
      transmit_mbit_per_second: bandwidthSchema('Maximum from the guest, with the same rules.'),
    },
    { ...closed, description: `Enforced by the kernel. ${otherwise} Takes effect on a running VM.` },
  )

const firewallSchema = (otherwise: string) =>
  Type.Object(
    {
      inbound: Type.Optional(
        Type.Array(inboundRuleSchema, {
          maxItems: limits.firewallRulesMax,
          description:
            'Others may open only connections to the guest that one of these allows. If absent, the configuration of the host decides.',
        }),
      ),
      outbound: Type.Optional(
        Type.Array(outboundRuleSchema, {
          maxItems: limits.firewallRulesMax,
          description:
            'In order: the first rule that is about a connection of the guest decides. What no rule is about is allowed, but for ' +
            'what is closed to all guests. The gateway of the guest is not concerned.',
        }),
      ),
    },
    {
      ...closed,
      description:
        `${otherwise} Replies always pass, in both directions, and so do connections from the host itself. Takes effect on a ` +
        'running VM.',
    },
  )

const nameServersSchema = (otherwise: string) =>
  Type.Array(Type.String(), {
    maxItems: limits.nameServersMax,
    description:
      "Addresses of both families mixed, in the network configuration of the guest's seed. An empty list: the guest learns " +
      `of none. ${otherwise}`,
    examples: [['192.0.2.53', '2001:db8::53']],
  })

/** Members of a network that both a create request and an answer have. */
const networkMembers = {
  name_servers: Type.Optional(
    nameServersSchema('If absent, as the host was configured when the VM was created.'),
  ),
  ipv4_address: Type.Optional(ipv4Schema),
  ipv6_address: Type.Optional(ipv6Schema),
  ipv6_prefix: Type.Optional(ipv6PrefixSchema('If absent, none.')),
  bandwidth: Type.Optional(bandwidthsSchema('Not limited if absent.')),
  firewall: Type.Optional(firewallSchema('If absent, the configuration of the host decides.')),
}

export const networkSchema = Type.Object(
  { mac_address: macAddressSchema, ...networkMembers },
  { description: 'If absent, the VM has no network device.' },
)

export const createNetworkSchema = Type.Object(
  {
    mac_address: Type.Optional({ ...macAddressSchema, description: 'If absent, the host chooses one.' }),
    ...networkMembers,
  },
  { ...closed, description: 'If absent, the VM has no network device.' },
)

export const setNetworkSchema = Type.Object(
  {
    mac_address: orNull(macAddressSchema, 'The host chooses one if `null`.'),
    ipv4_address: orNull(ipv4Schema, 'The guest has none if `null`.'),
    ipv6_address: orNull(ipv6Schema, 'The guest has none if `null`.'),
    ipv6_prefix: orNull(ipv6PrefixSchema('If `null`, none.')),
    name_servers: orNull(nameServersSchema('If `null`, the configuration of the host decides now.')),
    bandwidth: orNull(bandwidthsSchema('Not limited if `null`.')),
    firewall: orNull(firewallSchema('If `null`, the configuration of the host decides.')),
  },
  {
    ...closed,
    description:
      'Changes of the network: a member that is absent stays as it is stored, and `null` removes it. `bandwidth` and ' +
      '`firewall` are each replaced as a whole. They and `ipv6_prefix` change under a running guest. The addresses and the name servers, which the guest ' +
      'knows too, change only while the VM is stopped.',
    examples: [
      {
        ipv4_address: '192.0.2.10',
        ipv6_address: null,
        bandwidth: { receive_mbit_per_second: 200, transmit_mbit_per_second: 50 },
        firewall: {
          inbound: [
            { protocol: 'tcp', ports: ['22'], sources: ['192.0.2.0/24'] },
            { protocol: 'tcp', ports: ['80', '443'] },
          ],
          outbound: [{ action: 'deny', protocol: 'tcp', ports: ['25'] }],
        },
      },
    ],
  },
)

export type NetworkWire = Static<typeof networkSchema>
export type SetNetworkWire = Static<typeof setNetworkSchema>
export type CreateNetworkWire = Static<typeof createNetworkSchema>
