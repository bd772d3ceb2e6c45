import { Refused } from '../listener/refused.ts'

/** A resource whose revision every change raises. */
type Revised = { readonly revision: number }

export const etagOf = (record: Revised): string => `"${record.revision}"`

/**
 * Refuses a mutation if its `If-Match` does not name the stored revision (RFC 9110, 13.1.1). `what` is the word for the
 * resource. Reading, this check and the command run in one turn of the event loop, so nothing comes between.
 */
export function checkIfMatch(header: string | undefined, record: Revised | undefined, what: string): void {
  if (header === undefined) return
  if (record !== undefined && namesRevision(tagsOf(header), record)) return
  throw new Refused({
    code: 'precondition_failed',
    detail:
      record === undefined
        ? `If-Match was given, but there is no such ${what} yet`
        : `the ${what} is at revision ${record.revision}: read it again, and decide again`,
  })
}

/**
 * Returns whether `If-None-Match` names this revision, so the reader has it already. Compares weakly (RFC 9110,
 * 13.1.2).
 */
export const isKnown = (header: string | undefined, record: Revised): boolean =>
  header !== undefined &&
  namesRevision(
    tagsOf(header).map((tag) => tag.replace(/^W\//, '')),
    record,
  )

const tagsOf = (header: string): readonly string[] => header.split(',').map((tag) => tag.trim())

const namesRevision = (tags: readonly string[], record: Revised): boolean =>
  tags.includes('*') || tags.includes(etagOf(record))
