import { createHash } from 'node:crypto'
import { looksLikeMd5OfParts } from '../../core/object-store/judge-answer.ts'
import { assert } from '../../lib/assert.ts'
import { done, failed } from './outcome.ts'
import { afterRefusal } from './send.ts'
import { mibOf } from './pack.ts'
import type { Task } from './context.ts'
import type { Outcome } from './outcome.ts'

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
  if (outcome.kind === 'gone' && mayBeCompleted) return lookForObject(task)
  return afterRefusal(task, outcome, { purpose: 'complete', url })
}

/** Handles an upload that the store has forgotten: only the object shows whether a completion succeeded. */
async function lookForObject(task: Task): Promise<Outcome> {
  const { entry, host, signal } = task
  const url = entry.url('head')
  if (url === undefined) {
    const message =
      'the store does not know the upload any more; only a head_url can show whether it was completed'
    return failed('upload_gone', message, true)
  }
  const outcome = await host.objectStore.head(url, signal)
  if (outcome.kind === 'absent') return failed('upload_gone', 'the upload is gone, and no object came of it')
  if (outcome.kind === 'refused' || outcome.kind === 'gone')
    return failed('upload_gone', `the upload is gone, and head_url shows no object: ${outcome.because}`, true)
  if (outcome.kind !== 'present') return afterRefusal(task, outcome, { purpose: 'head', url })
  const { bytes, etag } = outcome
  if (bytes !== storedBytes(task))
    return failed('upload_gone', `the upload is gone, and an object of ${bytes} bytes is in its place`)
  if (isOfOtherParts(task, etag))
    return failed('upload_gone', 'the upload is gone, and an object of other parts is in its place')
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
