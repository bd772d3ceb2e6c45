import { statusOf } from '../../core/snapshots/record.ts'
import { percentOf, standingOf, needsUrls } from '../../core/snapshots/work.ts'
import { toWire } from './member-mapper.ts'
import { shownText, time } from './values.ts'
import { given } from '../../lib/given.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { Capture, SnapshotRecord, Trouble } from '../../core/snapshots/record.ts'
import type { SnapshotTally } from '../../core/snapshots/work.ts'
import type { OperationId } from '../../core/ids.ts'
import type { HostView } from '../../owners/capacity/host-report.ts'
import type { SnapshotWire } from './snapshot.ts'
import type { SyncWire } from './sync.ts'

/** A record with the tally of its parts, read at the same time. */
export type SnapshotSight = { readonly record: SnapshotRecord; readonly tally: SnapshotTally }

/**
 * The only translation of a record to a response. `operationId` is that of the mutation being answered, if it changed
 * something.
 */
export function snapshotToWire({ record, tally }: SnapshotSight, operationId?: OperationId): SnapshotWire {
  const { capture, sha256 } = record
  const standing = standingOf(record, tally)
  const { lacks, doneBytes, totalBytes } = standing
  const lacking = needsUrls(lacks)
  return {
    id: record.id,
    vm_id: record.vmId,
    status: statusOf(record),
    progress: {
      phase: standing.phase,
      done_mib: Math.floor(mib(doneBytes)),
      ...(totalBytes === undefined ? {} : { total_mib: Math.ceil(mib(totalBytes)) }),
      percent: percentOf(standing),
    },
    needs_urls: lacking,
    ...(lacking ? { lacking_urls: { parts: [...lacks.parts], complete: lacks.complete } } : {}),
    ...(record.stage === 'failed' ? { resumable: record.resumable } : {}),
    parts: { part_size_mib: record.partMib, packed: tally.packed, sent: tally.sent },
    staged_mib: Math.ceil(mib(record.staged.bytes)),
    ...(sha256 === undefined ? {} : { stored_size_mib: Math.ceil(mib(tally.storedBytes)), sha256 }),
    ...(capture === undefined ? {} : captureToWire(capture)),
    ...given({ waiting_for: standing.waitingFor }),
    ...troubleToWire(record.trouble),
    last_activity_at: time(record.lastActivityAtMs),
    revision: record.revision,
    created_at: time(record.createdAtMs),
    updated_at: time(record.updatedAtMs),
    ...given({ operation_id: operationId }),
  }
}

export function snapshotSummaryToWire({
  record,
  tally,
}: HostView['snapshots'][number]): SyncWire['snapshots'][number] {
  const standing = tally === undefined ? undefined : standingOf(record, tally)
  return {
    id: record.id,
    vm_id: record.vmId,
    status: statusOf(record),
    percent: standing === undefined ? 100 : percentOf(standing),
    needs_urls: standing !== undefined && needsUrls(standing.lacks),
    last_activity_at: time(record.lastActivityAtMs),
    ...given({ waiting_for: standing?.waitingFor }),
    ...(record.trouble === undefined ? {} : { error: shownText(record.trouble.message) }),
  }
}

const mib = (bytes: number): number => bytes / MIB

const captureToWire = toWire<
  Capture,
  Required<Pick<SnapshotWire, 'size_mib' | 'consistency' | 'captured_at' | 'paused_ms'>>
>()({
  imageBytes: ['size_mib', (bytes) => Math.ceil(mib(bytes))],
  atMs: ['captured_at', time],
  pausedMs: Math.round,
})

function troubleToWire(trouble: Trouble | undefined): Pick<SnapshotWire, 'error' | 'fault'> {
  return trouble === undefined ? {} : { error: shownText(trouble.message), fault: faultToWire(trouble) }
}

const faultToWire = toWire<Trouble, NonNullable<SnapshotWire['fault']>>()({
  // It is in `error`.
  message: null,
  sinceMs: ['since', time],
  nextAttemptAtMs: ['next_attempt_at', time],
})
