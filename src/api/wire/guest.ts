import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { checkedBy, readySinceMs } from '../../core/guest/guest-seen.ts'
import { given } from '../../lib/given.ts'
import { closed } from '../../lib/schema-check.ts'
import { HTTP_PATH_PATTERN, shownText, time } from './values.ts'
import type { Static } from 'typebox'
import type { ReadinessCheck } from '../../core/desired.ts'
import type { Complaint } from '../../lib/schema-check.ts'
import type { VmRecord } from '../../core/vm/record.ts'

const since = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description, examples: ['2030-01-01T12:00:05.000Z'] }))

const guestSchema = Type.Object(
  {
    agent_since: since('When an agent was first seen to listen in the guest. Absent if none does.'),
    ready_since: since(
      'When the guest was first seen ready: by `desired.readiness`, or without that by its agent. Absent while it is not ready.',
    ),
    not_ready: Type.Optional(
      Type.String({
        description: 'Why the last check did not find it ready.',
        examples: ['connect to port 80: ECONNREFUSED'],
      }),
    ),
  },
  {
    description:
      'The findings of looks into the guest since its start; they stay while it is paused or asleep. Absent if it showed nothing.',
  },
)

/** The member of `observed` about what runs in the guest. */
export const guestMembers = { guest: Type.Optional(guestSchema) }

export const readinessSchema = Type.Object(
  {
    protocol: Type.Enum(['tcp', 'http'] as const satisfies readonly ReadinessCheck['protocol'][], {
      type: 'string',
      description:
        '`tcp`: the port takes a connection. `http`: it also answers a GET with a status from 200 to 399.',
    }),
    port: Type.Integer({ minimum: 1, maximum: 65_535, examples: [80] }),
    path: Type.Optional(
      Type.String({
        pattern: HTTP_PATH_PATTERN,
        maxLength: limits.readinessPathBytesMax,
        description: 'For `http` alone, with its query; `/` if absent.',
        examples: ['/healthz'],
      }),
    ),
  },
  {
    ...closed,
    description:
      "How the host checks that the guest is ready, at the guest's IPv4 address, else at its IPv6 address. A check is made at least " +
      `every ${limits.readinessLookMsMax / 1000} s while the guest runs. It neither wakes a VM nor keeps it awake. After ${limits.readinessMissesMin} ` +
      'failed checks in a row the guest is not ready any more.',
  },
)

export const setReadinessSchema = Type.Object(
  {
    check: Type.Union([
      readinessSchema,
      Type.Null({ description: 'The guest is ready when its agent is seen.' }),
    ]),
  },
  { ...closed, examples: [{ check: { protocol: 'http', port: 80, path: '/healthz' } }] },
)

type ReadinessWire = Static<typeof readinessSchema>

export const readinessFromWire = ({ protocol, port, path }: ReadinessWire): ReadinessCheck => ({
  protocol,
  port,
  ...given({ path }),
})

/** Returns the errors of a check in a request that its schema cannot find. A check on record may have them. */
export const readinessComplaints = (
  pointer: string,
  { protocol, path }: Pick<ReadinessWire, 'protocol' | 'path'>,
): Complaint[] =>
  protocol === 'tcp' && path !== undefined
    ? [
        {
          pointer: `${pointer}/path`,
          code: 'not_allowed',
          detail: 'is only for http: a check by tcp asks for no path',
        },
      ]
    : []

export const readinessToWire = ({ protocol, port, path }: ReadinessCheck): ReadinessWire => ({
  protocol,
  port,
  ...given({ path }),
})

export function guestToWire({ guest = {}, desired }: VmRecord): { guest?: Static<typeof guestSchema> } {
  const readyMs = readySinceMs(guest, desired.readiness)
  const because = checkedBy(guest, desired.readiness)?.because
  const shown = given({
    agent_since: guest.agentSinceMs === undefined ? undefined : time(guest.agentSinceMs),
    ready_since: readyMs === undefined ? undefined : time(readyMs),
    not_ready: because === undefined ? undefined : shownText(because, [desired.readiness?.path ?? '/']),
  })
  return Object.keys(shown).length === 0 ? {} : { guest: shown }
}
