import { phaseOf } from './work.ts'
import type { SnapshotRecord } from './record.ts'
import type { LackingUrls, SnapshotPhase } from './work.ts'

/** What parts and URLs of a snapshot come to: enough to tell where it stands, however many there are. */
export type SnapshotTally = {
  readonly packed: number
  readonly sent: number
  /** Bytes of the image whose compressed form the store has. */
  readonly sentImageBytes: number
  /** Where the last part that is packed ends. */
  readonly storedBytes: number
  /** Numbers of parts that are packed, not sent, and without a URL; the first of them, in order. */
  readonly lacking: readonly number[]
  readonly hasCompleteUrl: boolean
}

/** Where a snapshot stands. The same as `workOf` says of all its parts. */
export type SnapshotStanding = {
  readonly phase: SnapshotPhase
  readonly lacks: LackingUrls
  /** Bytes of the image whose compressed form the store has. Parts are counted whole, so it never falls. */
  readonly doneBytes: number
  /** Undefined until the disk is captured. */
  readonly totalBytes: number | undefined
}

export function standingOf(record: SnapshotRecord, tally: SnapshotTally): SnapshotStanding {
  const { stage, capture } = record
  const uploading = stage === 'packing' || stage === 'sending'
  const toComplete = (stage === 'sending' && tally.sent === tally.packed) || stage === 'completing'
  const lacks: LackingUrls = {
    parts: uploading ? tally.lacking : [],
    complete: toComplete && !tally.hasCompleteUrl,
  }
  return {
    phase: phaseOf(record, { lacks }),
    lacks,
    doneBytes: tally.sentImageBytes,
    totalBytes: capture?.imageBytes,
  }
}

/** Whole percent that the store has of the image; 0 while it is not known how large that is. */
export function percentOf({
  doneBytes,
  totalBytes,
}: Pick<SnapshotStanding, 'doneBytes' | 'totalBytes'>): number {
  if (totalBytes === undefined || totalBytes === 0) return 0
  return Math.floor((100 * doneBytes) / totalBytes)
}
