import { createHash } from 'node:crypto'
import { looksLikeMd5OfParts } from '../../core/object-store/judge-answer.ts'
import { assert } from '../../lib/assert.ts'
import { mibOf } from '../../lib/byte-units.ts'
import { done, failed } from './outcome.ts'
import { afterRefusal } from './refusal.ts'
import type { Task } from './context.ts'
import type { Outcome } from './outcome.ts'
import type { Unsent } from '../../ports/object-store.ts'

/** Asks the store to make the object from its parts; repeats the request if an answer may have been lost. */
export async function complete(task: Task): Promise<Outcome> {
  const { entry, host, store, signal } = task
  const url = entry.url('complete')
  if (url === undefined) return done
  const { completionSent: mayBeCompleted } = entry.record
  entry.advance({ stage: 'completing', completionSent: true })
  // From here on, a lost answer leaves open whether the object exists.
  await store.flushed()
  const parts = entry.parts.map(({ number, etag }) => {
    assert(etag !== undefined, `${entry.id}: part ${number} was not sent`)
    return { number, etag }
  })
  const outcome = await host.objectStore.complete(url, parts, signal)
  if (outcome.kind === 'completed') return succeed(task)
  if (mayBeCompleted && (outcome.kind === 'gone' || outcome.kind === 'refused'))
    return lookForObject(task, unfinishedBy(outcome))
  return afterRefusal(task, outcome, { purpose: 'complete', url })
}

/** The answer to a completion, if an earlier one may have succeeded. */
type Unfinished = {
  readonly code: 'upload_gone' | 'upload_refused'
  readonly because: string
  /** Whether fresh URLs may help although there is no such object. */
  readonly resumable: boolean
}

/**
 * A store that has completed an upload may answer with something else than NoSuchUpload, so a refusal proves nothing.
 */
const unfinishedBy = ({
  kind,
  because,
}: Pick<Unsent, 'because'> & { kind: 'gone' | 'refused' }): Unfinished =>
  kind === 'gone'
    ? { code: 'upload_gone', because: 'the upload is gone', resumable: false }
    : { code: 'upload_refused', because: `the completion: ${because}`, resumable: true }

/** Looks for the object, because only that shows whether an earlier completion succeeded. */
async function lookForObject(task: Task, { code, because, resumable }: Unfinished): Promise<Outcome> {
  const { entry, host, signal } = task
  const url = entry.url('head')
  if (url === undefined)
    return failed(code, `${because}; only a head_url can show whether the upload was completed`, true)
  const outcome = await host.objectStore.head(url, signal)
  if (outcome.kind === 'absent') return failed(code, `${because}, and no object came of it`, resumable)
  const isForbiddenAgain = outcome.kind === 'expired' && entry.isHeadForbidden
  entry.isHeadForbidden = outcome.kind === 'expired'
  if (outcome.kind === 'refused' || outcome.kind === 'gone' || isForbiddenAgain)
    return failed(code, `${because}, and head_url shows no object: ${outcome.because}`, true)
  if (outcome.kind !== 'present') return afterRefusal(task, outcome, { purpose: 'head', url })
  const { bytes, etag } = outcome
  if (bytes !== storedBytes(task))
    return failed(code, `${because}, and an object of ${bytes} bytes is in its place`, resumable)
  if (isOfOtherParts(task, etag))
    return failed(code, `${because}, and an object of other parts is in its place`, resumable)
  return succeed(task)
}

/**
 * Returns whether the ETag belongs to an object made of other parts. If the parts' own ETags are not MD5s, it proves
 * nothing.
 */
function isOfOtherParts({ entry: { parts } }: Task, etag: string | undefined): boolean {
  if (etag === undefined || !looksLikeMd5OfParts(etag)) return false
  if (parts.some((part) => part.etag?.toLowerCase() !== part.md5)) return false
  const md5 = createHash('md5')
  for (const part of parts) md5.update(part.md5, 'hex')
  return etag.toLowerCase() !== `${md5.digest('hex')}-${parts.length}`
}

const storedBytes = ({ entry }: Task): number => entry.parts.reduce((sum, { bytes }) => sum + bytes, 0)

async function succeed(task: Task): Promise<Outcome> {
  const { entry, host, log } = task
  const { createdAtMs, capture } = entry.record
  entry.advance({ stage: 'completed', trouble: null })
  const words = {
    image_mib: mibOf(capture?.imageBytes ?? 0),
    stored_mib: mibOf(storedBytes(task)),
    part_count: entry.parts.length,
    elapsed_ms: host.clock.now() - createdAtMs,
  }
  log.info(words, 'snapshot completed')
  return done
}
