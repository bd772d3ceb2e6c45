import { Type } from 'typebox'
import { toWire } from './member-mapper.ts'
import type { Static } from 'typebox'
import type { PacketFlow } from '../../core/world/network-state.ts'

export const packetSchema = Type.Object(
  {
    protocol: Type.String({
      description: '`tcp`, `udp`, `icmp`, `icmpv6`, or the number of another protocol of IP.',
      examples: ['tcp'],
    }),
    source: Type.String({ description: 'IPv4 or IPv6 address.', examples: ['198.51.100.7'] }),
    source_port: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535, examples: [50_412] })),
    destination: Type.String({
      description: 'IPv4 or IPv6 address: that of the guest, or one of its prefix.',
      examples: ['192.0.2.10'],
    }),
    destination_port: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535, examples: [443] })),
  },
  {
    description:
      'The packet that woke the guest, if a packet did. Absent if it was dropped before it was read. Only TCP and UDP have ports.',
  },
)

export const packetToWire = toWire<PacketFlow, Static<typeof packetSchema>>()({})
