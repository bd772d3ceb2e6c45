import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { VM_ID_PATTERN } from '../../core/ids.ts'
import { DEPARTURE_STAGES, WITHDRAWAL_REASONS } from '../../core/migration/departure.ts'
import { MIGRATION_MODES, NODE_NAME_PATTERN } from '../../core/migration/offer.ts'
import { closed } from '../../lib/schema-check.ts'
import { toWire } from './member-mapper.ts'
import { time, timeSchema } from './values.ts'
import type { Static } from 'typebox'
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
    '`handing_over`, `handed_over`: the guest stands still. `released`: only the other host may run it. ' +
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
    description: `The host withdraws the offer at this time, unless the VM was released before. At most ${limits.offerMsMax / 3_600_000} hours from now.`,
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
          '`expired`: no host took the VM in time. `handover_expired`: the guest stood still for too long. ' +
          '`withdrawn`, `stopped`, `deleted`: a request. `aborted`: the other host gave it up. `guest_lost`: the guest ended ' +
          'before it was saved, or its saved state cannot be used.',
      }),
    ),
  },
  { description: 'The newest migration of the VM from this host.' },
)

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
