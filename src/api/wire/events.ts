import { Type } from 'typebox'
import { EVENT_KINDS } from '../../core/events/event.ts'
import { snakeCase } from '../../lib/text.ts'
import { exampleNumber } from './examples.ts'
import { packetSchema } from './packet.ts'
import { nextPageMembers, shownText, time, timeSchema } from './values.ts'
import type { Static } from 'typebox'
import type { StoredEvent } from '../../core/events/event.ts'

const text = (description: string, ...examples: readonly string[]) =>
  Type.Optional(Type.String({ description, ...(examples.length === 0 ? {} : { examples: [...examples] }) }))

const number = (description: string, ...examples: readonly number[]) =>
  Type.Optional(Type.Integer({ description, ...(examples.length === 0 ? {} : { examples: [...examples] }) }))

const sequenceSchema = Type.Integer({
  minimum: 0,
  description:
    'Rises from event to event, with gaps. It comes from the same counter as `revision` of VMs, so each can be compared with the other.',
  examples: [exampleNumber(1042)],
})

/** An event. The schema is open: later versions have more kinds and more members. */
export const eventSchema = Type.Object(
  {
    sequence: sequenceSchema,
    at: timeSchema,
    kind: Type.String({
      description: `One of ${EVENT_KINDS.map((kind) => `\`${kind}\``).join(', ')}; later versions have more. Pass over those that you do not know.`,
      examples: ['vm_state'],
    }),
    vm_id: text('The VM that it is about.', 'web-1'),
    snapshot_id: text('The snapshot that it is about.'),
    operation_id: text('The mutation that it follows from.'),
    from: text('The state, status or stage before.', 'starting'),
    to: text('The state, status or stage after.', 'running'),
    generation: number(
      '`vm_requested`: the new one. `vm_reached`: the one that is reached. `vm_stop`: that of the request; absent if the host shut down.',
      2,
    ),
    power: text('`vm_requested`: the desired power.', 'running'),
    changes: Type.Optional(
      Type.Array(Type.String(), { description: '`vm_requested`: members of `desired` that differ.' }),
    ),
    deletes: Type.Optional(Type.Boolean({ description: '`vm_requested`: the VM is to be deleted.' })),
    due: Type.Optional(
      Type.Boolean({
        description:
          '`vm_requested`: the exit policy of the VM deletes it, and no request did. `operation_id` is that of the last request.',
      }),
    ),
    stops: Type.Optional(
      Type.Boolean({
        description:
          '`vm_requested`: the guest is to end, while `power` stays, for a reboot or because its host is drained.',
      }),
    ),
    cause: text('`vm_exit`: as `cause` of `last_exit`.'),
    detail: text('In words.'),
    ran_seconds: number('`vm_exit`: as in `last_exit`.'),
    exit_status: number('`vm_exit`: exit status of the monitor.'),
    how: text('`vm_stop`: `graceful`, `deadline` or `hard`.'),
    reason: text('`vm_waking`, `vm_woken`: as `reason` of `last_wake`.', 'traffic'),
    packet: Type.Optional(packetSchema),
    duration_ms: number('`vm_woken`: as in `last_wake`.'),
    held_packets: number('`vm_woken`: as in `last_wake`.'),
    dropped_packets: number('`vm_woken`: as in `last_wake`.'),
    code: text('The code of the fault or of the refusal.'),
    step: text(
      '`vm_fault`: the step that failed, or the inspection. `vm_fault_ended`: it no longer fails, because it succeeded or is no longer needed.',
    ),
    side: text('`vm_migration`: `source` or `destination`, which this host is.'),
    migration_id: text('`vm_migration`: the migration.'),
    node: text('`vm_migration`: the destination, if this host is the source.'),
    because: text('`vm_migration`: why the guest stays.'),
    certificate: text(
      '`certificate_…`: as `name` of `host.certificates` in `/v1/sync`, or `client`, with its `name` and `serial`.',
      'server',
    ),
    name: text('`certificate_…`: common name of a client.'),
    serial: text('`certificate_…`: serial number of the certificate of a client.'),
    not_after: text('`certificate_…`: when it expires; of `certificate_replaced` the new one.'),
    listener: text('`revocation_list_…`: `controller` or `coordination`, whose file it is in.'),
    issuer: text('`revocation_list_…`: the authority of the list.'),
    revoked: number('`revocation_list_…`: certificates that it revokes.'),
    next_update: text('`revocation_list_…`: when the next list is due.'),
  },
  {
    description: 'One thing that happened. Members that a kind does not have are absent.',
    examples: [
      {
        sequence: exampleNumber(1042),
        at: '2030-01-01T12:00:00.000Z',
        kind: 'vm_waking',
        vm_id: 'web-1',
        operation_id: 'op-01b21dd2138040a1b2c3d4e5',
        reason: 'traffic',
        packet: {
          protocol: 'tcp',
          source: '198.51.100.7',
          source_port: 50_412,
          destination: '192.0.2.10',
          destination_port: 443,
        },
      },
    ],
  },
)

export const eventListSchema = Type.Object({
  items: Type.Array(Type.Unsafe<EventWire>({ $ref: 'Event#' })),
  kept_after: Type.Integer({
    minimum: 0,
    description: 'All events with higher numbers are kept. 0 if none was removed yet.',
    examples: [0],
  }),
  ...nextPageMembers,
})

/** The first message of a stream, and each later one that says that events are missing. */
export const eventStartSchema = Type.Object(
  {
    after: Type.Integer({ minimum: 0, description: 'The events that follow have higher numbers.' }),
    kept_after: Type.Integer({ minimum: 0, description: 'Events with higher numbers are kept.' }),
    missed: Type.Boolean({
      description:
        'Events between the number that was asked for, or of the last message, and `after` are not kept, or the number that was asked for is not of this host, from before its records were put back, or of progress that was lost with the daemon: read everything again.',
    }),
  },
  { examples: [{ after: exampleNumber(1042), kept_after: 0, missed: false }] },
)

export type EventWire = Static<typeof eventSchema>
export type EventListWire = Static<typeof eventListSchema>
export type EventStartWire = Static<typeof eventStartSchema>

/** Members that are not shown as they are stored. */
const SHOWN: Readonly<Record<string, (value: never) => Readonly<Record<string, unknown>>>> = {
  // Faults quote programs and the kernel.
  detail: (value: string) => ({ detail: shownText(value) }),
  ranMs: (value: number) => ({ ran_seconds: Math.floor(value / 1000) }),
  notAfterMs: (value: number) => ({ not_after: time(value) }),
  nextUpdateMs: (value: number) => ({ next_update: time(value) }),
  durationMs: (value: number) => ({ duration_ms: Math.round(value) }),
  packet: (value: object) => ({ packet: Object.fromEntries(namesOf(value)) }),
}

const namesOf = (members: object): readonly (readonly [string, unknown])[] =>
  Object.entries(members).map(([name, value]) => [snakeCase(name), value])

/** Translates an event: each member under its name in snake case, so that a new kind needs nothing here. */
export function eventToWire({ sequence, atMs, body }: StoredEvent): EventWire {
  const members = Object.entries(body).flatMap(([name, value]) =>
    name in SHOWN ? Object.entries(SHOWN[name]?.(value as never) ?? {}) : namesOf({ [name]: value }),
  )
  return { sequence, at: time(atMs), ...Object.fromEntries(members) } as EventWire
}
