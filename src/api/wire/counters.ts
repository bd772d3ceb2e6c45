import { Type } from 'typebox'
import { toWire } from './member-mapper.ts'
import { time } from './values.ts'
import { given } from '../../lib/given.ts'
import type { Static } from 'typebox'
import type { VmCounters } from '../../core/world/counters.ts'

const count = (description?: string) => Type.Integer({ minimum: 0, ...given({ description }) })

const since = (description: string) =>
  Type.String({
    format: 'date-time',
    description: `${description} When it changes, the figures beside it began at 0 again.`,
    examples: ['2030-01-01T11:00:00.000Z'],
  })

const countSchema = (description: string) =>
  Type.Optional(
    Type.Object(
      { since: since('When the VM was created here, or came to this host.'), count: count() },
      { description },
    ),
  )

const LIMIT_DROPS =
  'Those over the limit begin at 0 again, with the same `since`, when the limit is removed and when it is set again. Another rate does not change them.'

export const countersSchema = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'When they were read.' }),
    cpu: Type.Optional(
      Type.Object(
        {
          since: since('When the monitor was started: at a start or a wake of the VM.'),
          used_ms: Type.Integer({
            minimum: 0,
            description: 'Milliseconds of CPU time of the guest and its monitor.',
          }),
        },
        { description: 'Absent while the VM does not run.' },
      ),
    ),
    network: Type.Optional(
      Type.Object(
        {
          since: since(
            'When the daemon first saw the device of the VM. It stays over stops and sleeps. The figures of a device that was made under version 0.1 began before.',
          ),
          received_bytes: count('To the guest.'),
          received_packets: count(),
          transmitted_bytes: count('From the guest.'),
          transmitted_packets: count(),
          receive_dropped_packets: count(
            `Packets over the bandwidth limit, or not taken by the guest. ${LIMIT_DROPS} Then this figure falls to those not taken by the guest.`,
          ),
          transmit_dropped_packets: count(`Packets over the bandwidth limit. ${LIMIT_DROPS}`),
          inbound_dropped_packets: count(
            'Packets of connections to the guest that its firewall does not allow.',
          ),
          spoofed_packets: count('Dropped packets from the guest with an address that is not its own.'),
        },
        {
          description: 'Drops by the firewall count since its rule came into force. Absent without a device.',
        },
      ),
    ),
    disk: Type.Optional(
      Type.Object(
        {
          since: since('When the monitor was started: at a start or a wake of the VM.'),
          read_bytes: count(),
          read_operations: count(),
          written_bytes: count(),
          write_operations: count(),
        },
        { description: 'Absent while the VM does not run.' },
      ),
    ),
    wakes: countSchema(
      'Completed wakes. Absent while the VM comes from another host, and if it woke before this host counted wakes.',
    ),
    restarts: countSchema(
      'How often the guest was started again after it had ended by itself, reboots included.',
    ),
  },
  {
    description: 'Read from the host for this answer.',
    examples: [
      {
        at: '2030-01-01T12:00:00.000Z',
        cpu: { since: '2030-01-01T11:00:00.000Z', used_ms: 84_112 },
        network: {
          since: '2030-01-01T10:00:00.000Z',
          received_bytes: 128_044,
          received_packets: 911,
          transmitted_bytes: 2_098_111,
          transmitted_packets: 1702,
          receive_dropped_packets: 0,
          transmit_dropped_packets: 0,
          inbound_dropped_packets: 12,
          spoofed_packets: 0,
        },
        disk: {
          since: '2030-01-01T11:00:00.000Z',
          read_bytes: 41_943_040,
          read_operations: 1312,
          written_bytes: 8192,
          write_operations: 2,
        },
        wakes: { since: '2030-01-01T10:00:00.000Z', count: 3 },
        restarts: { since: '2030-01-01T10:00:00.000Z', count: 0 },
      },
    ],
  },
)

export type CountersWire = Static<typeof countersSchema>

type Part<K extends keyof VmCounters & keyof CountersWire> = readonly [
  domain: NonNullable<VmCounters[K]>,
  wire: NonNullable<CountersWire[K]>,
]

const countToWire = toWire<Part<'wakes'>[0], Part<'wakes'>[1]>()({ sinceMs: ['since', time] })

export const countersToWire = toWire<VmCounters, CountersWire>()({
  atMs: ['at', time],
  cpu: toWire<Part<'cpu'>[0], Part<'cpu'>[1]>()({ sinceMs: ['since', time] }),
  network: toWire<Part<'network'>[0], Part<'network'>[1]>()({
    sinceMs: ['since', time],
    receiveLimitedPackets: null,
    inboundPackets: ['inbound_dropped_packets', (packets) => packets],
  }),
  disk: toWire<Part<'disk'>[0], Part<'disk'>[1]>()({ sinceMs: ['since', time] }),
  wakes: countToWire,
  restarts: countToWire,
})
