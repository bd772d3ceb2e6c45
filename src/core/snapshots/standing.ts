import { phaseOf } from './work.ts'
import type { SnapshotRecord } from './record.ts'
import type { LackingUrls, SnapshotPhase } from './work.ts'

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

/** How far a snapshot is. It equals what `workOf` returns for all its parts. */
export type SnapshotStanding = {
  readonly phase: SnapshotPhase
  readonly lacks: LackingUrls
  /** Bytes of the image whose compressed form the store has. Parts are counted whole, so the number never falls. */
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

/** Returns how much of the image the store has, in whole percent; 0 while its size is unknown. */
export function percentOf({
  doneBytes,
  totalBytes,
}: Pick<SnapshotStanding, 'doneBytes' | 'totalBytes'>): number {
  if (totalBytes === undefined || totalBytes === 0) return 0
  return Math.floor((100 * doneBytes) / totalBytes)
}
