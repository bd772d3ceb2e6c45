import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { idleTimeoutMs, isFlapping } from '../../core/sleep/idle-timeout.ts'
import { given } from '../../lib/given.ts'
import { closed } from '../../lib/schema-check.ts'
import { toWire } from './member-mapper.ts'
import { packetSchema, packetToWire } from './packet.ts'
import { time, timeSchema } from './values.ts'
import { WAKE_REASONS } from '../../core/vm/record.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { Static } from 'typebox'
import type { VmRecord, LastWake } from '../../core/vm/record.ts'

const savedStateSchema = Type.Object(
  {
    saved_at: timeSchema,
    size_mib: Type.Integer({
      minimum: 0,
      description: 'MiB in the pool, rounded up. Unused memory of the guest is not saved.',
      examples: [84],
    }),
    memory_mib: Type.Integer({ minimum: 1, description: 'MiB of memory of the guest.', examples: [512] }),
  },
  {
    description:
      'The saved memory from which the VM wakes. Absent while it runs. Only `stopped` and deletion discard it.',
  },
)

const lastWakeSchema = Type.Object(
  {
    at: Type.String({
      format: 'date-time',
      description: 'When the first packet or the request for the guest came.',
      examples: ['2030-01-01T12:00:00.000Z'],
    }),
    reason: Type.Enum(WAKE_REASONS, {
      type: 'string',
      description:
        '`traffic`: a packet for it. `power`: a request set its power to `running` or `paused`. `console`: a shell over SSH. ' +
        '`keep_awake`: a request to keep it awake for a while. ' +
        '`sleep_disabled`: its idle timeout became 0, or it has no address. `change`: a desired change needs the guest. `withdrawn`: it was saved for a migration that was withdrawn. ' +
        '`host_booted`: it was saved when the host shut down. `maintenance`: it was saved to empty the host.',
    }),
    packet: Type.Optional(packetSchema),
    duration_ms: Type.Integer({
      minimum: 0,
      description: 'Milliseconds from `at` until the guest ran and had received every held packet.',
      examples: [180],
    }),
    held_packets: Type.Integer({
      minimum: 0,
      description: 'Packets that were held meanwhile and then passed to the guest, in their order.',
      examples: [1],
    }),
    dropped_packets: Type.Integer({
      minimum: 0,
      description: `Packets that were dropped meanwhile: beyond ${limits.heldFramesMax} packets or ${limits.heldBytesMax / 1024} KiB, or held for more than ${limits.heldFrameAgeMs / 1000} s.`,
      examples: [0],
    }),
  },
  { description: 'The last completed wake. Absent before the first.' },
)

const flappingSchema = Type.Object(
  {
    short_sleeps: Type.Integer({
      minimum: limits.shortSleepsFree + 1,
      description: `Number of consecutive sleeps that traffic ended within ${limits.shortSleepMs / 1000} s.`,
      examples: [5],
    }),
    sleep_after_idle_seconds: Type.Integer({
      minimum: 1,
      description: 'Present idle timeout in seconds, rounded up.',
      examples: [40],
    }),
  },
  {
    description:
      `Only while sleeping does not pay off: from the ${limits.shortSleepsFree + 1}th consecutive short sleep on, each doubles the idle timeout, up ` +
      `to ${limits.sleepBackoffMsMax / 60_000} minutes. A sleep that lasts longer, or ends for another reason, resets it.`,
  },
)

export const keepAwakeSchema = Type.Object(
  {
    until: Type.Union(
      [
        Type.String({
          format: 'date-time',
          description: `The time, at most ${limits.keepAwakeMsMax / DAY_MS} days ahead.`,
        }),
        Type.Null({ description: 'Lets it sleep as its idle timeout says.' }),
      ],
      { examples: ['2030-01-01T12:20:00.000Z'] },
    ),
  },
  { ...closed, examples: [{ until: '2030-01-01T12:20:00.000Z' }] },
)

/** The member of a VM that says until when it stays awake. */
export const keepAwakeMembers = {
  keep_awake_until: Type.Optional(
    Type.String({
      format: 'date-time',
      description:
        'The VM does not fall asleep before this time, whatever its traffic. Absent if no request asked for that; a time in ' +
        'the past has no effect.',
      examples: ['2030-01-01T12:20:00.000Z'],
    }),
  ),
}

/** Members of `observed` about sleeping. */
export const sleepMembers = {
  last_traffic_at: Type.Optional(
    Type.String({
      format: 'date-time',
      description:
        'When the last packet came that restarts the idle timeout. While the VM runs, this may be ' +
        `${limits.lastTrafficStepMs / 1000} s behind. Absent before the first packet.`,
      examples: ['2030-01-01T12:00:00.000Z'],
    }),
  ),
  saved_state: Type.Optional(savedStateSchema),
  last_wake: Type.Optional(lastWakeSchema),
  flapping: Type.Optional(flappingSchema),
}

type SleepWire = {
  last_traffic_at?: string
  saved_state?: Static<typeof savedStateSchema>
  last_wake?: Static<typeof lastWakeSchema>
  flapping?: Static<typeof flappingSchema>
}

export function sleepToWire(record: VmRecord): SleepWire {
  const { lastTrafficAtMs, savedState, lastWake } = record.observed
  return given({
    last_traffic_at: lastTrafficAtMs === undefined ? undefined : time(lastTrafficAtMs),
    saved_state: savedState && savedStateToWire(savedState),
    last_wake: lastWake && lastWakeToWire(lastWake),
    flapping: flappingToWire(record),
  })
}

const savedStateToWire = toWire<
  NonNullable<VmRecord['observed']['savedState']>,
  Static<typeof savedStateSchema>
>()({ savedAtMs: ['saved_at', time] })

const lastWakeToWire = toWire<LastWake, Static<typeof lastWakeSchema>>()({
  atMs: ['at', time],
  packet: packetToWire,
  durationMs: Math.round,
})

/** Returns undefined for a VM that never sleeps: it does not flap, whatever it did before. */
function flappingToWire(record: VmRecord): SleepWire['flapping'] | undefined {
  const timeoutMs = idleTimeoutMs(record)
  if (timeoutMs === undefined || !isFlapping(record)) return undefined
  const { shortSleeps = 0 } = record.observed
  return { short_sleeps: shortSleeps, sleep_after_idle_seconds: Math.ceil(timeoutMs / 1000) }
}
