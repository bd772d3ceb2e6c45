import { Type } from 'typebox'
import { OBSERVED_STATES } from '../../core/vm/record.ts'
import { given } from '../../lib/given.ts'
import { nextPageMembers } from './values.ts'
import { errorToWire } from './vm-to-wire.ts'
import { vmIdSchema, vmListSchema, vmSchema } from './vm.ts'
import type { Static } from 'typebox'
import type { VmSummary } from '../../core/vm/record.ts'

export const vmStateSchema = Type.Object(
  {
    id: vmIdSchema,
    generations: vmSchema.properties.generations,
    state: Type.Enum(OBSERVED_STATES, { type: 'string', description: 'Same as `observed.state` of the VM.' }),
    error: Type.Optional(
      Type.String({ description: 'Same as `observed.error` of the VM; absent when healthy.' }),
    ),
  },
  {
    description: 'Which state a VM is in, and whether its last change is complete.',
    examples: [{ id: 'web-1', generations: { desired: 7, observed: 7 }, state: 'running' }],
  },
)

export const vmStateListSchema = Type.Object({
  items: Type.Array(Type.Unsafe<VmStateWire>({ $ref: 'VmState#' }), { description: 'Ordered by id.' }),
  ...nextPageMembers,
  revision: vmListSchema.properties.revision,
})

export type VmStateWire = Static<typeof vmStateSchema>
export type VmStateListWire = Static<typeof vmStateListSchema>

export function vmStateToWire(summary: VmSummary): VmStateWire {
  const { id, generations, state } = summary
  return { id, generations: { ...generations }, state, ...given({ error: errorToWire(summary) }) }
}
