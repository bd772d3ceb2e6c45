import { limits } from '../../config/limits.ts'
import { err, ok } from '../../lib/result.ts'
import { refuseUrls } from '../outbound/check-urls.ts'
import { refuseWhileMoving } from '../../core/vm/leaving.ts'
import { existingVm } from '../vm/store-desired.ts'
import { MIB } from '../../lib/byte-units.ts'
import type { Rejection } from '../../core/errors.ts'
import type { SnapshotId, SnapshotRecord, StagingId, SnapshotUrls } from '../../core/snapshots/record.ts'
import type { SignedUrl } from '../../core/outbound/signed-url.ts'
import type { OperationId, VmId } from '../../core/ids.ts'
import type { Result } from '../../lib/result.ts'
import type { CommandContext } from '../context.ts'

/** An accepted mutation of a snapshot. */
export type SnapshotAccepted = {
  readonly record: SnapshotRecord
  readonly changed: boolean
  readonly operationId?: OperationId
}

export type SnapshotResult = Result<SnapshotAccepted, Rejection>

export type StartSnapshot = { readonly vmId: VmId; readonly partMib: number; readonly urls: SnapshotUrls }

/** Stores a new snapshot. The same request again returns the existing one; fresh URLs in it replace the stored ones. */
export function startSnapshot(
  context: CommandContext,
  id: SnapshotId,
  request: StartSnapshot,
): SnapshotResult {
  const { store } = context
  const result = store.transaction((): SnapshotResult => {
    const existing = store.snapshots.get(id)
    return existing === undefined ? insert(context, id, request) : repeatStart(context, existing, request)
  })
  return poked(context, result, 'started')
}

/** Hands over fresh URLs. A snapshot that waits for URLs, or failed because it had none, continues. */
export function handOverUrls(context: CommandContext, id: SnapshotId, urls: SnapshotUrls): SnapshotResult {
  const result = context.store.transaction((): SnapshotResult => {
    const found = existingSnapshot(context, id)
    return found.ok ? takeUrls(context, found.value, urls) : found
  })
  return poked(context, result, 'fresh URLs')
}

export type CompleteSnapshot = { readonly complete: SignedUrl; readonly head?: SignedUrl }

/** Completes the upload as soon as all of it is sent. Safe to repeat, also when it is completed. */
export const completeSnapshot = (
  context: CommandContext,
  id: SnapshotId,
  urls: CompleteSnapshot,
): SnapshotResult => handOverUrls(context, id, { firstPart: 1, parts: [], ...urls })

/** Removes the record of the snapshot; its staging is removed after that. Returns undefined if there is none. */
export function deleteSnapshot(context: CommandContext, id: SnapshotId): OperationId | undefined {
  const { store } = context
  const removed = store.transaction(() => {
    const record = store.snapshots.get(id)
    if (record !== undefined) store.snapshots.remove(id, context.now())
    return record
  })
  if (removed === undefined) return undefined
  const operationId = context.newOperationId()
  const { vmId, stagingId } = removed
  context.pokeSnapshot(id, { reason: 'deleted', vmId, stagingId, operationId })
  return operationId
}

/** Returns the snapshot, or why there is none. */
export function existingSnapshot(
  { store }: Pick<CommandContext, 'store'>,
  id: SnapshotId,
): Result<SnapshotRecord, Rejection> {
  const record = store.snapshots.get(id)
  return record === undefined
    ? err({ code: 'not_found', detail: `there is no snapshot ${id} on this host` })
    : ok(record)
}

function insert(
  context: CommandContext,
  id: SnapshotId,
  { vmId, partMib, urls }: StartSnapshot,
): SnapshotResult {
  const { store } = context
  const refusal = refuseUrls(context.outbound, urls, '/upload') ?? refuseSize(context, partMib)
  if (refusal !== undefined) return err(refusal)
  const vm = existingVm(store, vmId)
  if (!vm.ok) return vm
  if (vm.value.deleting) {
    return err({ code: 'vm_deleting', detail: `${vmId} is being deleted, and its disk with it` })
  }
  const leaving = refuseWhileMoving(vm.value)
  if (leaving !== undefined) return err(leaving)
  if (store.snapshots.count() >= limits.snapshotsMax) {
    const detail = `this host has ${limits.snapshotsMax} snapshots on record: delete those that have ended`
    return err({ code: 'snapshots_full', detail })
  }
  const full = refuseMoreUrls(context, urls)
  if (full !== undefined) return err(full)
  const operationId = context.newOperationId()
  const record = store.snapshots.insert({
    id,
    vmId,
    vmCreatedAtMs: vm.value.createdAtMs,
    stagingId: `${id}.${operationId}` as StagingId,
    partMib,
    urls,
    operationId,
    nowMs: context.now(),
  })
  return ok({ record, changed: true, operationId })
}

function repeatStart(
  context: CommandContext,
  existing: SnapshotRecord,
  { vmId, partMib, urls }: StartSnapshot,
): SnapshotResult {
  if (existing.vmId !== vmId || existing.partMib !== partMib) {
    return err({
      code: 'conflict',
      detail: `${existing.id} is a snapshot of ${existing.vmId} in parts of ${existing.partMib} MiB: delete it first, or choose another id`,
    })
  }
  // A snapshot that has failed for good is returned as it is: a repeat does not start a new one.
  if (existing.stage === 'failed' && !existing.resumable) return ok({ record: existing, changed: false })
  return takeUrls(context, existing, urls, '/upload')
}

/**
 * Stores URLs. They are judged only if they are stored, so a repeat succeeds whatever this host's policy has become.
 */
function takeUrls(
  context: CommandContext,
  before: SnapshotRecord,
  urls: SnapshotUrls,
  under = '',
): SnapshotResult {
  const { id } = before
  const { snapshots } = context.store
  if (before.stage === 'completed') return ok({ record: before, changed: false })
  if (before.stage === 'failed' && !before.resumable) {
    const because = before.trouble?.message ?? 'it failed'
    return err({ code: 'snapshot_failed', detail: `${id} has failed for good: ${because}` })
  }
  if (before.stage !== 'failed' && !isFresh(context, id, urls)) return ok({ record: before, changed: false })
  const refusal =
    refuseUrls(context.outbound, urls, under) ??
    refuseOtherUpload(context, id, { urls, under }) ??
    refuseMoreUrls(context, urls)
  if (refusal !== undefined) return err(refusal)
  const operationId = context.newOperationId()
  const record = snapshots.handOver(id, urls, { operationId, nowMs: context.now() })
  return ok({ record, changed: true, operationId })
}

/** Returns whether any of the URLs differs from the stored one. URLs of sent parts do not count. */
function isFresh({ store }: CommandContext, id: SnapshotId, urls: SnapshotUrls): boolean {
  const { snapshots } = store
  const sent = sentParts(store, id)
  const differs = (purpose: number | 'complete' | 'head', url: SignedUrl): boolean =>
    snapshots.url(id, purpose)?.equals(url) !== true
  return (
    urls.parts.some(
      (url, index) => !sent.has(urls.firstPart + index) && differs(urls.firstPart + index, url),
    ) ||
    (urls.complete !== undefined && differs('complete', urls.complete)) ||
    (urls.head !== undefined && differs('head', urls.head))
  )
}

const sentParts = ({ snapshots }: CommandContext['store'], id: SnapshotId): ReadonlySet<number> =>
  new Set(snapshots.parts(id).flatMap(({ number, etag }) => (etag === undefined ? [] : [number])))

/**
 * Refuses URLs that name another multipart upload than the one that parts were sent to: neither could be completed. An
 * upload without a sent part may be replaced.
 */
function refuseOtherUpload(
  { store }: CommandContext,
  id: SnapshotId,
  { urls, under }: { readonly urls: SnapshotUrls; readonly under: string },
): Rejection | undefined {
  const { firstPart, parts, complete } = urls
  const sent = sentParts(store, id)
  const isOther = (url: SignedUrl): boolean => store.snapshots.isOfOtherUpload(id, url)
  const errors = [
    ...parts.flatMap((url, index) =>
      sent.has(firstPart + index) || !isOther(url) ? [] : [`/part_urls/${index}`],
    ),
    ...(complete === undefined || !isOther(complete) ? [] : ['/complete_url']),
  ].map((pointer) => {
    const detail = `${pointer.slice(1)} is of another multipart upload than the parts that were sent`
    return { pointer: `${under}${pointer}`, code: 'other_upload', detail }
  })
  const [first] = errors
  if (first === undefined) return undefined
  return { code: 'upload_differs', detail: first.detail, errors: errors.slice(0, limits.findingsShown) }
}

/**
 * Refuses URLs of parts once the bound is reached. The request that crosses it is accepted, because one request has at
 * most a mebibyte. The two URLs for the end of a snapshot are always accepted: with its end, all its URLs go.
 */
function refuseMoreUrls({ store }: CommandContext, { parts }: SnapshotUrls): Rejection | undefined {
  if (parts.length === 0 || store.snapshots.urlBytes() < limits.snapshotUrlsBytesMax) return undefined
  const mib = limits.snapshotUrlsBytesMax / MIB
  const detail = `this host has ${mib} MiB of URLs on record: they go with the snapshots they are for, as those end`
  return { code: 'snapshots_full', detail }
}

function refuseSize(context: CommandContext, partMib: number): Rejection | undefined {
  const stagingQuotaMib = context.stagingQuotaMib()
  if (partMib <= stagingQuotaMib) return undefined
  const detail = `a part of ${partMib} MiB does not fit into the staging of this host, ${stagingQuotaMib} MiB`
  const errors = [{ pointer: '/upload/part_size_mib', code: 'out_of_range', detail }]
  return { code: 'invalid_request', detail, errors }
}

function poked(context: CommandContext, result: SnapshotResult, reason: string): SnapshotResult {
  if (result.ok && result.value.changed) {
    const { id, vmId, stagingId, operationId } = result.value.record
    context.pokeSnapshot(id, { reason, vmId, stagingId, operationId })
  }
  return result
}
