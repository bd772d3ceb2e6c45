import { Type } from 'typebox'
import { toWire } from './member-mapper.ts'
import { time } from './values.ts'
import type { Static } from 'typebox'
import type { DiskCounters, VmCounters } from '../../core/world/counters.ts'

const count = (description?: string) =>
  Type.Integer({ minimum: 0, ...(description === undefined ? {} : { description }) })

export const countersSchema = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'When they were read.' }),
    network: Type.Optional(
      Type.Object(
        {
          received_bytes: count('To the guest.'),
          received_packets: count(),
          transmitted_bytes: count('From the guest.'),
          transmitted_packets: count(),
          receive_dropped_packets: count('Packets over the bandwidth limit, or not taken by the guest.'),
          transmit_dropped_packets: count('Packets over the bandwidth limit.'),
          inbound_dropped_packets: count(
            'Packets of connections to the guest that its firewall does not allow.',
          ),
          spoofed_packets: count('Dropped packets from the guest with an address that is not its own.'),
        },
        {
          description:
            'Counted since the device was made; drops by the firewall since its rule came into force. Absent without network.',
        },
      ),
    ),
    disk: Type.Optional(
      Type.Object(
        {
          read_bytes: count(),
          read_operations: count(),
          written_bytes: count(),
          write_operations: count(),
        },
        { description: 'Counted since the VM was started. Absent while it does not run.' },
      ),
    ),
  },
  {
    description: 'Read from the host for this answer.',
    examples: [
      {
        at: '2030-01-01T12:00:00.000Z',
        network: {
          received_bytes: 128_044,
          received_packets: 911,
          transmitted_bytes: 2_098_111,
          transmitted_packets: 1702,
          receive_dropped_packets: 0,
          transmit_dropped_packets: 0,
          inbound_dropped_packets: 12,
          spoofed_packets: 0,
        },
        disk: { read_bytes: 41_943_040, read_operations: 1312, written_bytes: 8192, write_operations: 2 },
      },
    ],
  },
)

export type CountersWire = Static<typeof countersSchema>

const networkToWire = toWire<NonNullable<VmCounters['network']>, NonNullable<CountersWire['network']>>()({
  inboundPackets: ['inbound_dropped_packets', (packets) => packets],
})

export const countersToWire = toWire<VmCounters, CountersWire>()({
  atMs: ['at', time],
  network: networkToWire,
  disk: toWire<DiskCounters, NonNullable<CountersWire['disk']>>()({}),
})
