import { Type } from 'typebox'
import { time } from './values.ts'
import type { Static } from 'typebox'
import type { VmRecord } from '../../core/vm/record.ts'

const since = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description, examples: ['2030-01-01T12:00:05.000Z'] }))

const guestSchema = Type.Object(
  {
    agent_since: since('When an agent was first seen to listen in the guest. Absent if none does.'),
    ready_since: since(
      'When the guest was first seen ready: its agent listens. Absent while it is not ready.',
    ),
  },
  {
    description:
      'The findings of looks into the guest since its start; they stay while it is paused or asleep. Absent if it showed nothing.',
  },
)

/** The member of `observed` about what runs in the guest. */
export const guestMembers = { guest: Type.Optional(guestSchema) }

export function guestToWire({ guest }: VmRecord): { guest?: Static<typeof guestSchema> } {
  const { agentSinceMs } = guest ?? {}
  if (agentSinceMs === undefined) return {}
  return { guest: { agent_since: time(agentSinceMs), ready_since: time(agentSinceMs) } }
}
