import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import {
  DRAIN_WAYS,
  MAINTENANCE_STATES,
  SHOWN_MAINTENANCE,
  shownMaintenance,
} from '../../core/maintenance/maintenance.ts'
import { closed } from '../../lib/schema-check.ts'
import { given } from '../../lib/given.ts'
import { ONE_LINE_PATTERN, shownText, time, timeSchema } from './values.ts'
import { errorToWire, faultToWire } from './vm-to-wire.ts'
import { OBSERVED_STATES } from '../../core/vm/record.ts'
import { faultSchema, vmIdSchema } from './vm.ts'
import type { Static } from 'typebox'
import type { Drain, Maintenance, WantedMaintenance } from '../../core/maintenance/maintenance.ts'
import type { LeftVm } from '../../owners/maintenance/drainer.ts'

const stateSchema = Type.Enum(MAINTENANCE_STATES, {
  type: 'string',
  description:
    '`schedulable`: the host takes VMs. `cordoned`: it takes no new VM, no VM from another host, and no growth of memory, CPU or ' +
    'disk; its VMs live on, wakes, starts and restarts included. `drained`: besides, its guests come to rest, and none starts or ' +
    'wakes before the host is put back. What is desired of each VM stays.',
})

const reasonSchema = Type.String({
  minLength: 1,
  maxLength: limits.maintenanceReasonCharactersMax,
  pattern: ONE_LINE_PATTERN,
  description: 'Why, in the words of the operator. Refusals and the event of the change show it.',
  examples: ['new kernel'],
})

const waySchema = Type.Enum(DRAIN_WAYS, {
  type: 'string',
  description:
    '`sleep`: guests that run or are paused are saved, and go on where they were when the host is put back. `stop`: they are asked ' +
    'to end, and boot again then. Guests that sleep stay asleep.',
})

const graceSchema = Type.Integer({
  minimum: 0,
  maximum: limits.graceSecondsMax,
  description: '`stop`: the time in which a guest may end by itself. 0 is a hard stop.',
})

const atOnceSchema = Type.Integer({
  minimum: 1,
  maximum: limits.drainAtOnceMax,
  description: 'The most guests that come to rest at the same time.',
})

const setDrainSchema = Type.Object(
  {
    guests: Type.Optional({ ...waySchema, default: 'sleep' }),
    grace_seconds: Type.Optional({ ...graceSchema, default: limits.drainGraceSecondsDefault }),
    at_once: Type.Optional({ ...atOnceSchema, default: limits.drainAtOnceDefault }),
  },
  { ...closed, description: 'How guests come to rest; only with `drained`.' },
)

export const setMaintenanceSchema = Type.Object(
  { state: stateSchema, reason: Type.Optional(reasonSchema), drain: Type.Optional(setDrainSchema) },
  {
    ...closed,
    description: 'All members together: an omitted one is as by default.',
    examples: [{ state: 'cordoned', reason: 'new kernel' }],
  },
)

export const maintenanceSchema = Type.Object(
  {
    state: stateSchema,
    observed_state: Type.Enum(SHOWN_MAINTENANCE, {
      type: 'string',
      description: 'As `state`; but `draining` while guests are left on a host that is to be drained.',
    }),
    reason: Type.Optional(Type.String({ description: 'Why, in the words of the operator.' })),
    since: Type.Optional({ ...timeSchema, description: 'When the state began; absent if it was never set.' }),
    drain: Type.Optional(
      Type.Object(
        { guests: waySchema, grace_seconds: graceSchema, at_once: atOnceSchema },
        { description: 'How guests come to rest; present with `drained`.' },
      ),
    ),
    empty_since: Type.Optional({
      ...timeSchema,
      description: 'Since when no guest is left; absent before that.',
    }),
  },
  {
    description: 'Whether the host takes more, and whether its guests are at rest.',
    examples: [
      {
        state: 'cordoned',
        observed_state: 'cordoned',
        reason: 'new kernel',
        since: '2030-01-01T12:00:00.000Z',
      },
    ],
  },
)

const leftSchema = Type.Object({
  vm_id: vmIdSchema,
  state: Type.Enum(OBSERVED_STATES, { type: 'string', description: 'The observed state of the VM.' }),
  under_way: Type.Boolean({
    description: 'Whether its guest comes to rest now; otherwise it waits for its turn.',
  }),
  error: Type.Optional(Type.String({ description: 'What keeps it, as in `observed.error` of the VM.' })),
  fault: Type.Optional({
    ...faultSchema,
    description:
      'The first part of `error`, as in `observed.fault` of the VM. Each failure has another `attempt` or `since`.',
  }),
})

export const maintenanceProgressSchema = Type.Object(
  {
    ...maintenanceSchema.properties,
    left: Type.Array(leftSchema, {
      description:
        'The guests that are left on a host that is to be drained, by name. Empty on any other host.',
    }),
    operation_id: Type.Optional(
      Type.String({
        description:
          'Only in the answer to a request that changed something; the events and log lines of the change carry it.',
        examples: ['op-01b21dd2138040a1b2c3d4e5'],
      }),
    ),
  },
  {
    description: 'Whether the host takes more, and which guests are left.',
    examples: [
      {
        state: 'drained',
        observed_state: 'draining',
        reason: 'new kernel',
        since: '2030-01-01T12:00:00.000Z',
        drain: { guests: 'sleep', grace_seconds: 60, at_once: 2 },
        left: [{ vm_id: 'web-1', state: 'running', under_way: true }],
      },
    ],
  },
)

export type SetMaintenanceWire = Static<typeof setMaintenanceSchema>
export type MaintenanceWire = Static<typeof maintenanceSchema>
export type MaintenanceProgressWire = Static<typeof maintenanceProgressSchema>

/** Returns the state that a request asks for; undefined if it says how to drain a host that is not to be drained. */
export function maintenanceFromWire({
  state,
  reason,
  drain,
}: SetMaintenanceWire): WantedMaintenance | undefined {
  const wanted = { state, ...given({ reason }) }
  if (state === 'drained') return { ...wanted, drain: drainFromWire(drain) }
  return drain === undefined ? wanted : undefined
}

const drainFromWire = ({
  guests = 'sleep',
  grace_seconds: graceSeconds = limits.drainGraceSecondsDefault,
  at_once: atOnce = limits.drainAtOnceDefault,
}: SetMaintenanceWire['drain'] = {}): Drain => ({ guests, graceSeconds, atOnce })

export function maintenanceToWire(maintenance: Maintenance): MaintenanceWire {
  const { state, reason, sinceMs, emptySinceMs, drain } = maintenance
  return {
    state,
    observed_state: shownMaintenance(maintenance),
    ...given({
      reason: reason === undefined ? undefined : shownText(reason),
      since: sinceMs === undefined ? undefined : time(sinceMs),
      drain: drain && { guests: drain.guests, grace_seconds: drain.graceSeconds, at_once: drain.atOnce },
      empty_since: emptySinceMs === undefined ? undefined : time(emptySinceMs),
    }),
  }
}

export const maintenanceProgressToWire = (
  maintenance: Maintenance,
  left: readonly LeftVm[],
): MaintenanceProgressWire => ({
  ...maintenanceToWire(maintenance),
  left: left.map(({ id, underWay, record: { observed } }) => ({
    vm_id: id,
    state: observed.state,
    under_way: underWay,
    ...given({
      error: errorToWire(observed),
      fault: observed.fault && faultToWire(observed.fault),
    }),
  })),
})
