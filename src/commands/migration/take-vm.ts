import { commitmentOf } from '../../core/capacity/ledger.ts'
import { isComing } from '../../core/migration/arrival.ts'
import { nodeAfter } from '../../core/vm/leaving.ts'
import { movesWithMemory } from '../../core/vm/manifest.ts'
import { given } from '../../lib/given.ts'
import { err, ok } from '../../lib/result.ts'
import { freeUserId, refuseIncrease } from '../capacity/admit.ts'
import { refuseNewVm } from '../maintenance/refuse-cordoned.ts'
import { refuseAddresses } from '../vm/check-network.ts'
import { stillDeleting } from '../vm/store-desired.ts'
import type { Rejection } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import type { MigrationId } from '../../core/migration/offer.ts'
import type { Manifest, Offered } from '../../core/vm/manifest.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { CommandContext, CommandResult } from '../context.ts'

/** A request to take a VM that another host offers. */
export type TakeVm = {
  readonly migrationId: MigrationId
  /** The coordination API of that host, as an origin. */
  readonly source: string
}

/**
 * Stores a VM that comes from another host, with all that the host has promised it there. The same request again
 * returns the VM, and may name another address of the source.
 */
export function takeVm(context: CommandContext, id: VmId, request: TakeVm & Offered): CommandResult {
  const result = context.store.transaction(
    () => takenAlready(context, id, request) ?? insert(context, id, request),
  )
  if (result.ok && result.value.changed) context.poke(id, 'taken')
  return result
}

/** Returns the result for a VM that is on record; undefined if there is none. */
export function takenAlready(
  { store, now, newOperationId }: CommandContext,
  id: VmId,
  { migrationId, source }: TakeVm,
): CommandResult | undefined {
  const existing = store.vms.get(id)
  if (existing === undefined) return undefined
  const { arrival } = existing
  if (arrival?.migrationId !== migrationId) return err(taken(existing))
  if (existing.deleting) return err(stillDeleting(id))
  if (arrival.source === source || !isComing(arrival)) return ok({ record: existing, changed: false })
  const record = store.arrivals.set(id, { ...arrival, source }, now())
  return ok({ record, changed: true, operationId: newOperationId() })
}

function taken(existing: VmRecord): Rejection {
  const { id } = existing
  const node = nodeAfter(existing)
  const what =
    node === undefined
      ? `has a VM ${id} already`
      : `still has the record of ${id}, whose guest has left for ${node}`
  return { code: 'conflict', detail: `this host ${what}: delete it first` }
}

function insert(
  context: CommandContext,
  id: VmId,
  { migrationId, source, manifest, arrivalId }: TakeVm & Offered,
): CommandResult {
  const { store, capacity, now, newOperationId } = context
  const { vm } = manifest
  const wrong =
    refuseNewVm(context, id) ??
    refuseOffer(id, manifest) ??
    refuseAddresses(context, id, vm.desired.network ?? {})
  if (wrong !== undefined) return err(wrong)
  const userId = freeUserId(store)
  if (!userId.ok) return userId
  // Its disk is that of its last rebuild.
  const observed = given({ rebuild: vm.desired.image.rebuild })
  const bringsMemory = movesWithMemory(manifest)
  const commitment = commitmentOf({ ...vm, observed, mayBeSaved: bringsMemory }, capacity.memoryTerms())
  const refusal = refuseIncrease(context, commitment)
  if (refusal !== undefined) return err(refusal)
  const record = store.vms.insert({
    id,
    userId: userId.value,
    monitor: vm.monitor,
    desired: vm.desired,
    metadata: vm.metadata,
    inputs: { ...vm.inputs, sources: new Map() },
    operationId: newOperationId(),
    nowMs: now(),
    move: {
      arrival: { id: arrivalId, migrationId, source, stage: 'pulling', wakes: false, round: 0 },
      createdAtMs: vm.createdAtMs,
      bringsMemory,
      exitStreak: vm.exitStreak,
      ...given({ lastTrafficAtMs: vm.lastTrafficAtMs, keepAwakeUntilMs: vm.keepAwakeUntilMs }),
    },
  })
  if (vm.sshHostKey !== undefined) store.sshHostKeys.pin(id, vm.sshHostKey, now())
  return ok({ record, changed: true })
}

function refuseOffer(id: VmId, { vmId, stage, migrationId }: Manifest): Rejection | undefined {
  if (vmId !== id) {
    const detail = `migration ${migrationId} is one of VM ${vmId}: take it under that id`
    return {
      code: 'invalid_request',
      detail,
      errors: [{ pointer: '/migration_id', code: 'wrong_vm', detail }],
    }
  }
  if (stage === 'offered' || stage === 'copying') return undefined
  const detail = `migration ${migrationId} of ${id} is ${stage} at its source: offer ${id} there under a new migration id`
  return { code: 'migration_unavailable', detail }
}
