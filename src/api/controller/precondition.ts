import { Refused } from './refused.ts'
import type { VmRecord } from '../../core/vm/record.ts'

export const etagOf = (record: VmRecord): string => `"${record.revision}"`

/**
 * Refuses a mutation whose `If-Match` does not name the revision that is stored (RFC 9110, 13.1.1). Reading, this check
 * and the command run in one turn of the event loop, so nothing comes between.
 */
export function checkIfMatch(header: string | undefined, record: VmRecord | undefined): void {
  if (header === undefined) return
  const wanted = header.split(',').map((tag) => tag.trim())
  if (record !== undefined && (wanted.includes('*') || wanted.includes(etagOf(record)))) return
  throw new Refused({
    code: 'precondition_failed',
    detail:
      record === undefined
        ? 'If-Match was given, but there is no such VM yet'
        : `the VM is at revision ${record.revision}: read it again and decide anew`,
  })
}
