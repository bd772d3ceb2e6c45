import { createHash } from 'node:crypto'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { freeParts } from './free-parts.ts'
import { done, failed } from './outcome.ts'
import { afterRefusal } from './refusal.ts'
import { warnOfFault } from '../../log/log.ts'
import type { SnapshotPart } from '../../core/snapshots/record.ts'
import type { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { PartBody } from '../../ports/object-store.ts'
import type { Task } from './context.ts'
import type { Outcome } from './outcome.ts'

/** Sends one part when its turn among the parts of all stores and snapshots has come. */
export async function sendPart(task: Task, part: SnapshotPart): Promise<Outcome> {
  const { entry, uploads, signal } = task
  const url = entry.url(part.number)
  if (url === undefined) return done
  return uploads.run([url.host, entry.stagingId], () => sendNow(task, part), signal)
}

async function sendNow(task: Task, part: SnapshotPart): Promise<Outcome> {
  const { entry, host, store, signal, log } = task
  const { number, md5, bytes } = part
  // The URL may have been used up while this part waited for its turn.
  const url = entry.url(number)
  if (url === undefined) return done
  const sentEtag = entry.unrecordedEtag(number, url)
  if (sentEtag !== undefined) return recordSent(task, part, { etag: sentEtag, url })
  const beganMs = host.clock.monotonicMs()
  // The record of this part must be on the disk before the store gets it.
  await store.flushed()
  const body = host.staging.partBody(entry.stagingId, part)
  const outcome = await host.objectStore.putPart({ url, body, md5, onSent: activityOf(task) }, signal)
  if (outcome.kind === 'damaged' && !(await isWhole(body, part, signal)))
    return failed('staging_lost', `part ${number} is damaged in staging: ${outcome.because}`)
  if (outcome.kind !== 'stored') return afterRefusal(task, outcome, { purpose: number, url })
  // URLs of another upload may have come meanwhile. That upload does not have the part.
  if (entry.url(number)?.isOfOtherUpload(url) === true) return done
  const elapsedMs = Math.round(host.clock.monotonicMs() - beganMs)
  log.debug({ part: number, bytes, elapsed_ms: elapsedMs }, 'part sent')
  return recordSent(task, part, { etag: outcome.etag, url })
}

/** Records that the store has a part, and frees its space if the snapshot does not keep sent parts. */
async function recordSent(
  task: Task,
  part: SnapshotPart,
  { etag, url }: { readonly etag: string; readonly url: SignedUrl },
): Promise<Outcome> {
  const { staged } = task.entry.setEtag(part.number, etag, url)
  await task.store.flushed()
  if (!staged.isWhole) await free(task, part)
  return done
}

/** Returns whether the staged bytes are still the packed ones. */
async function isWhole(
  body: PartBody,
  { sha256, md5 }: Pick<SnapshotPart, 'sha256' | 'md5'>,
  signal: AbortSignal,
): Promise<boolean> {
  const hashes = { sha256: createHash('sha256'), md5: createHash('md5') }
  for await (const chunk of body.chunks(signal)) {
    signal.throwIfAborted()
    hashes.sha256.update(chunk)
    hashes.md5.update(chunk)
  }
  return hashes.sha256.digest('hex') === sha256 && hashes.md5.digest('hex') === md5
}

/** Returns a function that records activity from time to time while a part is sent. */
function activityOf({ entry, host }: Task): () => void {
  let recordedMs = host.clock.monotonicMs()
  return () => {
    const nowMs = host.clock.monotonicMs()
    if (nowMs - recordedMs < limits.snapshotActivityMs || entry.find() === undefined) return
    recordedMs = nowMs
    try {
      entry.touch()
    } catch (error) {
      // Records that cannot be written must not break off what is sent.
      if (!(error instanceof HostFault)) throw error
    }
  }
}

/** Frees the space of a part that was sent. */
async function free({ entry, host, log }: Task, part: SnapshotPart): Promise<void> {
  try {
    await freeParts(host.staging, entry.stagingId, [part])
  } catch (error) {
    warnOfFault(log, error, 'sent part not removed; the next sweep removes it', { part: part.number })
  }
}
