import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { given } from '../../../lib/given.ts'
import { invalidRequest } from '../../listener/validation.ts'
import { LABEL_QUERY_PATTERN } from '../../wire/values.ts'
import { OBSERVED_STATES } from '../../../core/vm/record.ts'
import { afterCursor, pageMembers } from './page.ts'
import type { Static } from 'typebox'
import type { VmId } from '../../../core/ids.ts'
import type { VmQuery } from '../../../store/vm/vm-query.ts'

/** Query members of lists of VMs. */
export const vmFilterMembers = {
  ...pageMembers,
  state: Type.Optional(
    Type.Enum(OBSERVED_STATES, { type: 'string', description: 'Only VMs in this observed state.' }),
  ),
  label: Type.Optional(
    Type.String({
      pattern: LABEL_QUERY_PATTERN,
      description: `Only VMs with all of these labels, of which there are at most ${limits.labelsMax}.`,
      examples: ['env=prod,tier=web'],
    }),
  ),
}

type VmFilter = { readonly [Name in keyof typeof vmFilterMembers]?: Static<(typeof vmFilterMembers)[Name]> }

/** Returns the query of a page. It reads one record more than the page has, which shows that another page follows. */
export function pageQueryOf({ limit = limits.listItemsDefault, cursor, state, label }: VmFilter): {
  readonly limit: number
  readonly query: VmQuery
} {
  const after = afterCursor('vms', cursor) as VmId | undefined
  const labels = label === undefined ? undefined : labelsOf(label)
  return { limit, query: { limit: limit + 1, ...given({ after, state, labels }) } }
}

/** Parses `env=prod,tier=web`, whose form the schema has checked. Refuses more labels than a VM can have. */
function labelsOf(text: string): NonNullable<VmQuery['labels']> {
  const pairs = [...new Set(text.split(','))]
  if (pairs.length > limits.labelsMax) {
    const detail = `must have at most ${limits.labelsMax} labels`
    throw invalidRequest('query', [{ pointer: '/label', code: 'wrong_length', detail }])
  }
  return pairs.map((pair) => pair.split('=') as [string, string])
}
