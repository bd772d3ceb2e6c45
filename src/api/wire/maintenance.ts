import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { MAINTENANCE_STATES } from '../../core/maintenance/maintenance.ts'
import { closed } from '../../lib/schema-check.ts'
import { given } from '../../lib/given.ts'
import { ONE_LINE_PATTERN, shownText, time, timeSchema } from './values.ts'
import type { Static } from 'typebox'
import type { Maintenance, WantedMaintenance } from '../../core/maintenance/maintenance.ts'

const stateSchema = Type.Enum(MAINTENANCE_STATES, {
  type: 'string',
  description:
    '`schedulable`: the host takes VMs. `cordoned`: it takes no new VM, no VM from another host, and no growth of memory, CPU or ' +
    'disk; its VMs live on, wakes, starts and restarts included.',
})

const reasonSchema = Type.String({
  minLength: 1,
  maxLength: limits.maintenanceReasonCharactersMax,
  pattern: ONE_LINE_PATTERN,
  description: 'Why, in the words of the operator. Refusals and the event of the change show it.',
  examples: ['new kernel'],
})

export const setMaintenanceSchema = Type.Object(
  { state: stateSchema, reason: Type.Optional(reasonSchema) },
  {
    ...closed,
    description: 'All members together: an omitted one is removed.',
    examples: [{ state: 'cordoned', reason: 'new kernel' }],
  },
)

export const maintenanceSchema = Type.Object(
  {
    state: stateSchema,
    reason: Type.Optional(Type.String({ description: 'Why, in the words of the operator.' })),
    since: Type.Optional({ ...timeSchema, description: 'When the state began; absent if it was never set.' }),
  },
  {
    description: 'Whether the host takes more.',
    examples: [{ state: 'cordoned', reason: 'new kernel', since: '2030-01-01T12:00:00.000Z' }],
  },
)

export type SetMaintenanceWire = Static<typeof setMaintenanceSchema>
export type MaintenanceWire = Static<typeof maintenanceSchema>

export const maintenanceFromWire = ({ state, reason }: SetMaintenanceWire): WantedMaintenance => ({
  state,
  ...given({ reason }),
})

export const maintenanceToWire = ({ state, reason, sinceMs }: Maintenance): MaintenanceWire => ({
  state,
  ...given({
    reason: reason === undefined ? undefined : shownText(reason),
    since: sinceMs === undefined ? undefined : time(sinceMs),
  }),
})
