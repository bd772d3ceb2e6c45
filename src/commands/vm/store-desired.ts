import { isDeepStrictEqual } from 'node:util'
import { err, ok } from '../../lib/result.ts'
import { commitmentOf, increaseOf } from '../../core/capacity/ledger.ts'
import { refuseIncrease, refuseTooLarge } from '../capacity/admit.ts'
import { refuseGrowth } from '../maintenance/refuse-cordoned.ts'
import { hasEnded } from '../../core/vm/exit-policy.ts'
import { isLeaving, refuseWhileMoving, withoutOffer } from '../../core/vm/leaving.ts'
import { given } from '../../lib/given.ts'
import type { InputsChange } from '../../core/vm/create.ts'
import type { Stop } from '../../core/vm/stop.ts'
import type { OfferEnd } from '../../core/vm/leaving.ts'
import type { VmCommitment } from '../../core/capacity/ledger.ts'
import type { Desired } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import type { VmRecord, ObservedState } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { CommandContext, CommandResult, Refusal } from '../context.ts'
import { owesStop } from '../../core/vm/record.ts'
import type { Rejection } from '../../core/errors.ts'
import type { Store } from '../../store/store.ts'

type Ending = Omit<OfferEnd, 'wakes'>

type Change = {
  /** For the log: "power paused". */
  readonly reason: string
  /**
   * Returns the new desired state, or why it is refused. Called inside the transaction, with the record as it is then.
   */
  readonly decide: (before: VmRecord) => Result<Desired, Refusal>
  /**
   * Returns whether a request for the power that is already desired is a change, because it asks for a guest that
   * sleeps or has ended for good.
   */
  readonly repeatsPower?: (before: VmRecord) => boolean
  /** Returns the stop that the request asks for; undefined if it asks for none, or for the one that is under way. */
  readonly stops?: (before: VmRecord) => Stop | undefined
  /** Stored beside a desired state that differs. */
  readonly inputs?: InputsChange
}

/** Returns what a change needs of the host beyond what the VM has been promised. */
function increaseBy({ capacity }: CommandContext, before: VmRecord, desired: Desired): VmCommitment {
  const terms = capacity.memoryTerms()
  return increaseOf(commitmentOf(before, terms), commitmentOf({ ...before, desired }, terms))
}

/** Checks and stores a change of desired state in one transaction, and wakes the VM's worker if something changed. */
export function storeDesired(context: CommandContext, id: VmId, change: Change): CommandResult {
  const { store } = context
  return changeVm(context, { id, reason: change.reason }, (before) => {
    const desired = change.decide(before)
    // Advice on how to make the change possible would end a move that is under way.
    if (!desired.ok) return err(refuseWhileMoving(before) ?? desired.error)
    const repeatsPower = change.repeatsPower?.(before) === true
    const stops = change.stops?.(before)
    if (!repeatsPower && stops === undefined && isDeepStrictEqual(desired.value, before.desired))
      return ok({ record: before, changed: false })
    const nowMs = context.now()
    const isStop = stops !== undefined && desired.value.power === 'stopped'
    const end = endOffer(before, { desired: desired.value, isStop }, nowMs)
    if (!end.ok) return end
    const refusal =
      refuseGrowth(context, id, { before: before.desired, after: desired.value }) ??
      refuseIncrease(context, increaseBy(context, before, desired.value)) ??
      refuseTooLarge(context, before, desired.value)
    if (refusal !== undefined) return err(refusal)
    const operationId = context.newOperationId()
    const record = store.vms.changeDesired(id, {
      ...end.value,
      repeatsPower,
      ...given({ stops, inputs: change.inputs }),
      operationId,
      nowMs,
    })
    return ok({ record, changed: true })
  })
}

/** Changes a VM in one transaction, and wakes its worker if something changed. */
export function changeVm(
  { store, poke }: CommandContext,
  { id, reason }: { readonly id: VmId; readonly reason: string },
  change: (before: VmRecord) => CommandResult,
): CommandResult {
  const result = store.transaction(() => {
    const found = changeableVm(store, id)
    return found.ok ? change(found.value) : found
  })
  if (result.ok && result.value.changed) poke(id, reason)
  return result
}

/** Returns the change with the withdrawal of an offer that a stop ends, or why a VM that leaves takes no change. */
function endOffer(
  before: VmRecord,
  { desired, isStop }: { readonly desired: Desired; readonly isStop: boolean },
  nowMs: number,
): Result<Ending, Rejection> {
  const refusal = refuseWhileMoving(before)
  if (refusal === undefined) return ok({ desired })
  if (!isLeaving(before) || !isStop) return err(refusal)
  const { wakes: _stopped, ...end } = withoutOffer({ ...before, desired }, 'stopped', nowMs)
  return ok(end)
}

/** Returns the record that a change is about, or why it cannot be changed. */
export function changeableVm(store: Store, id: VmId): Result<VmRecord, Rejection> {
  const found = existingVm(store, id)
  if (!found.ok || !found.value.deleting) return found
  return err({ code: 'vm_deleting', detail: `${id} is being deleted and takes no further changes` })
}

/** Returns the refusal of a request for a VM whose id is still that of one under deletion. */
export const stillDeleting = (id: VmId): Rejection => ({
  code: 'vm_deleting',
  detail: `${id} is being deleted: wait until GET answers 404`,
})

/**
 * Returns why the VM must keep its disk; undefined if it is not protected. `then` is what the request asks for, such as
 * "delete".
 */
export function refuseProtected(
  { id, metadata }: Pick<VmRecord, 'id' | 'metadata'>,
  then: string,
): Rejection | undefined {
  if (!metadata.protected) return undefined
  const detail = `${id} is protected: set "protected" to false in PUT /v1/vms/${id}/metadata, then ${then} it`
  return { code: 'vm_protected', detail }
}

/**
 * Returns whether the VM is stopped: a stop is desired, and a look found nothing left of the guest, neither a unit nor
 * a saved state. The state that is shown does not count: a VM that was created as `stopped` and cannot be prepared is
 * `failed`.
 */
export const isStopped = (record: VmRecord): boolean =>
  record.desired.power === 'stopped' && !owesStop(record)

/** Returns the refusal of a change to what a guest was started with. */
export const notStopped = (record: VmRecord, what: string): Rejection => ({
  code: 'vm_not_stopped',
  detail: `${what} of ${record.id} can change only while it is stopped${insteadWords(record)}`,
})

function insteadWords(record: VmRecord): string {
  const { desired, observed } = record
  const isSeenStopped = observed.state === 'stopped'
  if (desired.power === 'stopped') {
    const seen = isSeenStopped ? 'its stop is not done yet' : `it is still ${observed.state}`
    return `, and ${seen}: wait until its stop is done; observed.error says what keeps it`
  }
  const seen = isSeenStopped ? ', and it is about to start' : `, and it is ${observed.state}`
  const state = hasEnded(record) ? `; its guest has ended, but its power is ${desired.power}` : seen
  return `${state}: set its power to stopped${AT_A_COST[observed.state] ?? ''}, and wait until it is`
}

const AT_A_COST: { readonly [S in ObservedState]?: string } = {
  sleeping: ', which throws its saved state away',
}

/** Returns the record that a mutation is about, or why there is none. */
export function existingVm(store: Store, id: VmId): Result<VmRecord, Rejection> {
  const record = store.vms.get(id)
  return record === undefined ? err({ code: 'not_found', detail: noVmWords(id) }) : ok(record)
}

export const noVmWords = (id: VmId): string => `there is no VM ${id} on this host`
