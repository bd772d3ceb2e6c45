import type { VmId } from '../../core/ids.ts'
import type { ObservedState } from '../../core/vm/record.ts'
import type { UnwrittenProgress } from './vm-row.ts'

/** Selects VMs in the order of ids. */
export type VmQuery = {
  /** Begins behind this id. */
  readonly after?: VmId
  readonly limit?: number
  readonly state?: ObservedState
  /** Selects only VMs that have all of these labels. None has two values for one key. */
  readonly labels?: readonly (readonly [key: string, value: string])[]
}

/** Returns the end of a statement on `vms`; `parametersOf` has its parameters. */
export const selectionOf = ({ labels = [] }: VmQuery): string =>
  `WHERE id > ?1 AND (?2 IS NULL OR state = ?2) ${labels.length === 0 ? '' : HAS_LABELS} ORDER BY id LIMIT ?4`

// Reads a label by its path: SQLite parses the labels of a row once for all of its paths, but again for each
// `json_each`. Labels that cannot be read match nothing: without the test, SQLite would refuse the whole statement.
const HAS_LABELS = `AND CASE WHEN json_valid(vms.labels) THEN NOT EXISTS (SELECT 1 FROM json_each(?3) AS wanted
    WHERE vms.labels ->> ('$."' || (wanted.value ->> 0) || '"') IS NOT wanted.value ->> 1) END`

export const parametersOf = ({
  after = '' as VmId,
  state,
  labels = [],
  limit,
}: VmQuery): (string | number | null)[] => [
  after,
  state ?? null,
  JSON.stringify(labels),
  limit ?? Number.MAX_SAFE_INTEGER,
]

/**
 * Reads what a query selects. `read` applies progress that is not on the disk. The state there may differ from the one
 * that is shown, so then the shown one is compared.
 */
export function selected<Shown extends { readonly state: string }>(
  query: VmQuery,
  unwritten: Pick<UnwrittenProgress, 'isEmpty'>,
  read: (query: VmQuery) => readonly Shown[],
): readonly Shown[] {
  const { state, limit, ...rest } = query
  if (unwritten.isEmpty || state === undefined) return read(query)
  return read(rest)
    .filter((shown) => shown.state === state)
    .slice(0, limit)
}
