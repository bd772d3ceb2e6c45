import { limits } from '../../config/limits.ts'
import { retryDelayMs } from '../retry/retry.ts'
import type { PackWait, SnapshotPart, SnapshotRecord, UrlsAtHand } from './record.ts'

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
type LackingUrls = { readonly parts: readonly number[]; readonly complete: boolean }

/**
 * Returns the work for a snapshot now.
 * @param parts all packed parts, or only the unsent ones: sent parts change nothing
 */
export function workOf(
  record: SnapshotRecord,
  parts: readonly SnapshotPart[],
  urls: UrlsAtHand,
): SnapshotWork {
  const { stage } = record
  const withoutEtag = parts.filter(({ etag }) => etag === undefined)
  const { uploading, toComplete } = uploadAt(stage, withoutEtag.length)
  const unsent = uploading ? withoutEtag : []
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

/** Returns whether parts are sent at a stage, and whether only the end of the upload is left. */
function uploadAt(
  stage: SnapshotRecord['stage'],
  unsent: number,
): { readonly uploading: boolean; readonly toComplete: boolean } {
  return {
    uploading: stage === 'packing' || stage === 'sending',
    toComplete: (stage === 'sending' && unsent === 0) || stage === 'completing',
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

/** Sums over parts and URLs of a snapshot: enough to say how far it is, however many there are. */
export type SnapshotTally = {
  readonly packed: number
  readonly sent: number
  /** Bytes of the image whose compressed form the store has. */
  readonly sentImageBytes: number
  /** Position at which the last packed part ends. */
  readonly storedBytes: number
  /** Numbers of parts that are packed, not sent, and without a URL; only the first ones, in order. */
  readonly lacking: readonly number[]
  readonly hasCompleteUrl: boolean
}

/** How far a snapshot is. */
type SnapshotStanding = {
  readonly phase: SnapshotPhase
  readonly lacks: LackingUrls
  /** Bytes of the image whose compressed form the store has. Parts are counted whole, so the number never falls. */
  readonly doneBytes: number
  /** Undefined until the disk is captured. */
  readonly totalBytes: number | undefined
  /** The wait of the packing, while no part of the snapshot can be sent: a part that is sent makes room itself. */
  readonly waitingFor: PackWait | undefined
}

export function standingOf(record: SnapshotRecord, tally: SnapshotTally): SnapshotStanding {
  const { stage, capture, waitingFor } = record
  const unsent = tally.packed - tally.sent
  const { uploading, toComplete } = uploadAt(stage, unsent)
  const isSending = unsent > tally.lacking.length && tally.lacking.length < limits.lackingPartsShown
  const lacks: LackingUrls = {
    parts: uploading ? tally.lacking : [],
    complete: toComplete && !tally.hasCompleteUrl,
  }
  return {
    phase: phaseOf(record, { lacks }),
    lacks,
    doneBytes: tally.sentImageBytes,
    totalBytes: capture?.imageBytes,
    waitingFor: stage === 'packing' && !isSending ? waitingFor : undefined,
  }
}

/** Returns how much of the image the store has, in whole percent; 0 while its size is unknown. */
export function percentOf({
  doneBytes,
  totalBytes,
}: Pick<SnapshotStanding, 'doneBytes' | 'totalBytes'>): number {
  if (totalBytes === undefined || totalBytes === 0) return 0
  return Math.floor((100 * doneBytes) / totalBytes)
}
