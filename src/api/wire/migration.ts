import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { VM_ID_PATTERN } from '../../core/ids.ts'
import { ARRIVAL_STAGES } from '../../core/migration/arrival.ts'
import { DEPARTURE_STAGES, WITHDRAWAL_REASONS } from '../../core/migration/departure.ts'
import { MIGRATION_MODES, NODE_NAME_PATTERN } from '../../core/migration/offer.ts'
import { closed } from '../../lib/schema-check.ts'
import { toWire } from './member-mapper.ts'
import { time, timeSchema } from './values.ts'
import { HOUR_MS } from '../../lib/time-units.ts'
import type { Static } from 'typebox'
import type { TakeVm } from '../../commands/migration/take-vm.ts'
import type { Arrival } from '../../core/migration/arrival.ts'
import type { Departure } from '../../core/migration/departure.ts'
import type { MigrationId, NodeName, Offer } from '../../core/migration/offer.ts'

export const migrationIdSchema = Type.String({
  pattern: VM_ID_PATTERN,
  description:
    'Chosen by the controller, a new one for each try: 1 to 63 lower-case letters, digits and inner hyphens.',
  examples: ['move-7'],
})

export const modeSchema = Type.Enum(MIGRATION_MODES, {
  type: 'string',
  description:
    '`live`: a guest moves with its memory, running or asleep. `cold`: the guest is stopped, and only its disk moves.',
})

export const stageSchema = Type.Enum(DEPARTURE_STAGES, {
  type: 'string',
  description:
    '`offered`: the node has not begun. `copying`: rounds of the disk are copied while the guest lives as before. ' +
    '`handing_over`, `handed_over`: the guest is down for the handover. `released`: only the other host may run it. ' +
    '`withdrawn`: the VM stays. The last two are final.',
})

const offerMembers = {
  migration_id: migrationIdSchema,
  node: Type.String({
    pattern: NODE_NAME_PATTERN,
    description: 'The common name of the node certificate of the host that may take the VM.',
    examples: ['node-2'],
  }),
  mode: modeSchema,
  expires_at: {
    ...timeSchema,
    description: `The host withdraws the offer at this time, unless the VM was released before. At most ${limits.offerMsMax / HOUR_MS} hours from now.`,
  },
}

/** The offer in desired state. */
export const offerSchema = Type.Object(offerMembers, {
  description: 'The node that may take the VM. Present until the offer is withdrawn by a request.',
})

export const offerVmSchema = Type.Object(offerMembers, {
  ...closed,
  description: 'An offer of a VM to a node, which may then take it over the coordination API.',
  examples: [
    { migration_id: 'move-7', node: 'node-2', mode: 'live', expires_at: '2030-01-01T12:00:00.000Z' },
  ],
})

/** How far the migration is. */
export const departureSchema = Type.Object(
  {
    migration_id: migrationIdSchema,
    stage: stageSchema,
    stage_since: timeSchema,
    withdrawn_because: Type.Optional(
      Type.Enum(WITHDRAWAL_REASONS, {
        type: 'string',
        description:
          '`expired`: no host took the VM in time. `handover_expired`: the guest was down for too long. ' +
          '`withdrawn`, `stopped`, `deleted`: a request. `aborted`: the other host gave it up. `guest_lost`: the guest ended ' +
          'before it was saved, or its saved state cannot be used.',
      }),
    ),
  },
  { description: 'The newest migration of the VM from this host.' },
)

export const takeVmSchema = Type.Object(
  {
    migration_id: migrationIdSchema,
    source_url: Type.String({
      maxLength: 300,
      pattern: '^https://[^/?#@]+/?$',
      description: 'The coordination API of the host that offers the VM: `https`, host and port.',
      examples: ['https://10.0.0.1:9001'],
    }),
  },
  {
    ...closed,
    description: 'A VM that another host offers to the node certificate of this host.',
    examples: [{ migration_id: 'move-7', source_url: 'https://10.0.0.1:9001' }],
  },
)

/** How far the VM has come. */
export const arrivalSchema = Type.Object(
  {
    migration_id: migrationIdSchema,
    stage: Type.Enum(ARRIVAL_STAGES, {
      type: 'string',
      description:
        '`pulling`: the disk is copied in rounds, then the guest. `pulled`: everything is here, and its release is asked for. ' +
        '`released`: only this host may run it. `refused`: it stays at its source. The last two are final.',
    }),
    round: Type.Integer({ minimum: 0, description: 'The last round of the disk that is complete here.' }),
    progress: Type.Optional(
      Type.Object(
        { round: Type.Integer(), copied_bytes: Type.Integer(), total_bytes: Type.Integer() },
        { description: 'How much of the round under way is copied.' },
      ),
    ),
    refused_because: Type.Optional(
      Type.String({
        description:
          'Why it stays at its source, for example `withdrawn`. `unfit`: this host could not take it. `drained`: this host was drained.',
        examples: ['withdrawn'],
      }),
    ),
  },
  { description: 'How the VM came to this host. Absent if it was created here.' },
)

type TakeVmWire = Static<typeof takeVmSchema>
type ArrivalWire = Static<typeof arrivalSchema>

export const arrivalToWire = toWire<Arrival, ArrivalWire>()({
  id: null,
  migrationId: ['migration_id', (id) => id],
  // Answers hold no URLs.
  source: null,
  because: ['refused_because', (because) => because],
  progress: [
    'progress',
    ({ round, copiedBytes, totalBytes }) => ({ round, copied_bytes: copiedBytes, total_bytes: totalBytes }),
  ],
  wakes: null,
  expectsGuest: null,
  releasedAtMs: null,
  trouble: null,
})

/** Returns the request with its URL as an origin; undefined if that is not a URL. */
export function takeFromWire({ migration_id, source_url }: TakeVmWire): TakeVm | undefined {
  const url = URL.parse(source_url)
  return url === null ? undefined : { migrationId: migration_id as MigrationId, source: url.origin }
}

type OfferWire = Static<typeof offerSchema>
type DepartureWire = Static<typeof departureSchema>

export const offerToWire = toWire<Offer, OfferWire>()({
  id: ['migration_id', (id) => id],
  expiresAtMs: ['expires_at', time],
})

export const departureToWire = toWire<Departure, DepartureWire>()({
  id: ['migration_id', (id) => id],
  sinceMs: ['stage_since', time],
  because: ['withdrawn_because', (because) => because],
  node: null,
  mode: null,
  arrival: null,
  lived: null,
  handoverSinceMs: null,
  round: null,
  lastRound: null,
})

/** Returns the offer of a request. The schema has checked the form of the time. */
export const offerFromWire = ({ migration_id, node, mode, expires_at }: OfferWire): Offer => ({
  id: migration_id as MigrationId,
  node: node as NodeName,
  mode,
  expiresAtMs: Date.parse(expires_at),
})
