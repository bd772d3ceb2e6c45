import { limits } from '../../config/limits.ts'
import { retryDelayMs } from '../retry/retry.ts'
import type { SnapshotPart, SnapshotRecord, UrlsAtHand } from './record.ts'

/** The work for a snapshot now, by its record, and the URLs that it lacks for that. */
export type SnapshotWork = {
  readonly capture: boolean
  readonly pack: boolean
  /** Parts that are packed, not sent, and have a URL; in the order of their numbers. */
  readonly send: readonly SnapshotPart[]
  readonly complete: boolean
  readonly lacks: LackingUrls
}

/** Missing URLs: those of packed parts, and of the end of the upload once all parts are sent. */
export type LackingUrls = { readonly parts: readonly number[]; readonly complete: boolean }

/** @param parts all packed parts, or only the unsent ones: sent parts change nothing */
export function workOf(
  record: SnapshotRecord,
  parts: readonly SnapshotPart[],
  urls: UrlsAtHand,
): SnapshotWork {
  const { stage } = record
  const uploading = stage === 'packing' || stage === 'sending'
  const unsent = uploading ? parts.filter(({ etag }) => etag === undefined) : []
  const toComplete = (stage === 'sending' && unsent.length === 0) || stage === 'completing'
  return {
    capture: stage === 'waiting' || stage === 'capturing',
    pack: stage === 'packing',
    send: unsent.filter(({ number }) => urls.parts.has(number)),
    complete: toComplete && urls.complete,
    lacks: {
      parts: unsent.map(({ number }) => number).filter((number) => !urls.parts.has(number)),
      complete: toComplete && !urls.complete,
    },
  }
}

export const needsUrls = ({ parts, complete }: LackingUrls): boolean => parts.length > 0 || complete

/** The present phase of a snapshot, in one word. Parts are sent while others are still packed. */
export type SnapshotPhase = SnapshotRecord['stage'] | 'awaiting_completion'

export function phaseOf(record: SnapshotRecord, { lacks }: Pick<SnapshotWork, 'lacks'>): SnapshotPhase {
  return lacks.complete ? 'awaiting_completion' : record.stage
}

/**
 * Returns the milliseconds until another try after `attempts` failures: doubled up to a cap and jittered, and not
 * before the time that the store asks for. `random` is from 0 up to 1.
 */
export function sendDelayMs(attempts: number, random: number, retryAfterMs: number = 0): number {
  const granted = Math.round(Math.min(retryAfterMs, limits.retryAfterMsMax))
  return Math.max(retryDelayMs('backoff', attempts, random), granted)
}
