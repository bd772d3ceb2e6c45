import { Refused } from '../../listener/refused.ts'
import { Type } from 'typebox'
import { limits } from '../../../config/limits.ts'
import { ETAGS_PATTERN } from '../../wire/values.ts'
import type { FastifyReply } from 'fastify'
import type { Waits } from '../waits.ts'

/** A resource whose revision every change raises. */
type Revised = { readonly revision: number }

export const etagOf = (record: Revised): string => `"${record.revision}"`

/** Request headers of a mutation of `what`, such as "the VM". */
export const preconditionHeaders = (what: string) =>
  Type.Object({
    'if-match': Type.Optional(
      Type.String({
        pattern: ETAGS_PATTERN,
        description: `Only if ${what} is at this revision: the ETag of an earlier answer, with its quotes.`,
      }),
    ),
    'if-none-match': Type.Optional(
      Type.String({
        pattern: ETAGS_PATTERN,
        description: `Only if ${what} is at none of these revisions; \`*\`: only if it does not exist.`,
      }),
    ),
  })

export type Preconditions = {
  readonly 'if-match'?: string | undefined
  readonly 'if-none-match'?: string | undefined
}

/**
 * Refuses a mutation if its `If-Match` does not name the stored revision, or its `If-None-Match` does (RFC 9110,
 * 13.2.2). `what` is the word for the resource. Reading, this check and the command run in one turn of the event loop,
 * so nothing comes between.
 */
export function checkPreconditions(headers: Preconditions, record: Revised | undefined, what: string): void {
  const { 'if-match': match, 'if-none-match': noMatch } = headers
  if (match !== undefined && (record === undefined || !namesRevision(tagsOf(match), record)))
    throw new Refused({ code: 'precondition_failed', detail: mismatchWords(tagsOf(match), record, what) })
  if (record !== undefined && isKnown(noMatch, record)) {
    const detail = `If-None-Match names the ${what} that is there, at revision ${record.revision}: read it, and decide again`
    throw new Refused({ code: 'precondition_failed', detail })
  }
}

function mismatchWords(tags: readonly string[], record: Revised | undefined, what: string): string {
  if (record === undefined) return `If-Match was given, but there is no such ${what} yet`
  if (tags.every((tag) => tag.startsWith('W/')))
    return 'a weak ETag (W/"…") never matches in If-Match: send the one of an answer, without W/'
  return `the ${what} is at revision ${record.revision}: read it again, and decide again`
}

/**
 * Returns whether `If-None-Match` names this revision, so its sender knows it already. Compares weakly (RFC 9110,
 * 13.1.2).
 */
const isKnown = (header: string | undefined, record: Revised): boolean =>
  header !== undefined &&
  namesRevision(
    tagsOf(header).map((tag) => tag.replace(/^W\//, '')),
    record,
  )

/** Returns the items of a header that has the form of {@link ETAGS_PATTERN}. */
const tagsOf = (header: string): readonly string[] => header.match(/\*|(?:W\/)?"[^"]*"/g) ?? []

const namesRevision = (tags: readonly string[], record: Revised): boolean =>
  tags.includes('*') || tags.includes(etagOf(record))

const prefer = Type.Optional(
  Type.String({
    description: `\`wait=N\`: wait up to N seconds for a change, at most ${limits.waitSecondsMax} (RFC 7240).`,
    examples: ['wait=30'],
  }),
)

/** Request headers of a read that can wait without an ETag. */
export const waitHeader = Type.Object({ prefer })

/** Returns the milliseconds that a request asks to wait, and says in the answer that it is heard; 0 without a wish. */
export function waitMsOf({ headers }: Pick<ConditionalRequest, 'headers'>, reply: FastifyReply): number {
  const seconds = preferredWaitSeconds(headers.prefer)
  if (seconds !== undefined) reply.header('preference-applied', `wait=${seconds}`)
  return (seconds ?? 0) * 1000
}

/** Request headers of a read that can be a long poll of `what`, such as "the VM". */
export const conditionalHeaders = (what: string) =>
  Type.Object({
    'if-none-match': Type.Optional(
      Type.String({
        pattern: ETAGS_PATTERN,
        description: `The ETag of an earlier answer, with its quotes: 304 if ${what} is still the same.`,
      }),
    ),
    prefer,
  })

/** The header of an answer that may have been waited for. */
export const preferenceHeader = {
  'Preference-Applied': {
    type: 'string',
    description: 'The `wait` that was heard, with its bound; absent without one in the request.',
  },
}

/** Describes the answers of a read that can be a long poll: `found` with the resource, or 304. */
export function conditionalAnswers<Found extends { readonly headers: object }>(found: Found, what: string) {
  const headers = { ...found.headers, ...preferenceHeader }
  return {
    200: { ...found, headers },
    304: { type: 'null', description: `${what} still has the revision of \`If-None-Match\`.`, headers },
  }
}

type ConditionalRequest = {
  readonly headers: {
    readonly 'if-none-match'?: string | undefined
    readonly prefer?: string | undefined
  }
  readonly signal: AbortSignal
}

type Resource<Id extends string, Found> = {
  readonly id: Id
  readonly waits: Waits<Id>
  /** Returns the resource as it is now. Throws if there is none. */
  readonly find: () => Found
  /** Resolves when the found state is on the disk. */
  readonly flushed: () => Promise<void>
}

/**
 * Returns a resource. If the request asks to wait, waits until its revision differs from the one that the reader knows.
 * Returns undefined if it is still that revision, which the caller then answers with 304.
 */
export async function readConditionally<Id extends string, Found extends { readonly revision: number }>(
  request: ConditionalRequest,
  reply: FastifyReply,
  { id, waits, find, flushed }: Resource<Id, Found>,
): Promise<Found | undefined> {
  const known = request.headers['if-none-match']
  const waitSeconds = preferredWaitSeconds(request.headers.prefer)
  if (waitSeconds !== undefined) {
    reply.header('preference-applied', `wait=${waitSeconds}`)
    if (isKnown(known, find())) await waits.change(id, waitSeconds * 1000, request.signal)
  }
  const record = find()
  await flushed()
  reply.header('etag', etagOf(record))
  return isKnown(known, record) ? undefined : record
}

/**
 * Returns the seconds of `Prefer: wait=N` (RFC 7240, 4.3), at most `limits.waitSecondsMax`; undefined without it. A
 * preference that cannot be read is ignored: this header never makes a request fail (RFC 7240, 2).
 */
function preferredWaitSeconds(header: string | undefined): number | undefined {
  const [, seconds] = /(?:^|[,;])\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:$|[,;])/i.exec(header ?? '') ?? []
  return seconds === undefined ? undefined : Math.min(Number(seconds), limits.waitSecondsMax)
}
