import { NO_SHARES, beyond, commitmentOf, shortages, ledgerOf, totalsOf } from '../../core/capacity/ledger.ts'
import type { Commitment, MemoryTerms, Recorded, VmCommitment } from '../../core/capacity/ledger.ts'
import type { CommandContext, Refusal } from '../context.ts'
import type { Rejection } from '../../core/errors.ts'
import type { Desired } from '../../core/desired.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import { MONITOR_KINDS } from '../../core/monitor/monitor-kind.ts'
import type { MonitorKind } from '../../core/monitor/monitor-kind.ts'
import type { UserId } from '../../core/ids.ts'
import type { Store } from '../../store/store.ts'
import type { Result } from '../../lib/result.ts'
import { err, ok } from '../../lib/result.ts'

/**
 * Returns why the host cannot promise `increase` on top of what it has promised, or undefined if it can. Call it in the
 * transaction that stores the increase, so that two requests can never be promised the same room.
 */
export function refuseIncrease(
  { store, capacity }: CommandContext,
  increase: VmCommitment,
): Refusal | undefined {
  // Most changes need nothing more, and so no sum over all records.
  if (Object.values(increase).every((amount) => amount <= 0)) return undefined
  const { memoryMib, diskMib, consolePlaces } = capacity.allocatable()
  const shares = capacity.poolShares()
  if (increase.memoryMib > 0 && !memoryMib.known) return memoryMib
  if (increase.diskMib > 0 && !diskMib.known) return diskMib
  if (increase.diskMib > 0 && !shares.known) return shares
  if (increase.consolePlaces > 0 && !consolePlaces.known) return consolePlaces
  const terms = capacity.memoryTerms()
  // A part that does not increase is not checked.
  const ledger = ledgerOf(store.vms.recorded(), shares.known ? shares.value : NO_SHARES, terms)
  const committed = totalsOf(ledger)
  const shortBeyond = (promised: Commitment): ReturnType<typeof shortages> =>
    shortages(promised, increase, {
      memoryMib: memoryMib.known ? memoryMib.value : 0,
      diskMib: diskMib.known ? diskMib.value : 0,
      consolePlaces: consolePlaces.known ? consolePlaces.value : 0,
    })
  const short = shortBeyond(committed)
  const room = short.filter(({ kind }) => kind !== 'consolePlaces')
  if (room.length > 0) {
    const missing = `the host is short of ${room.map(({ words }) => words).join(' and of ')}`
    const { count, promised } = underDeletion(store, terms)
    const hasRoomThen = shortBeyond(beyond(promised, committed)).length === 0
    const detail = hasRoomThen ? `${missing}; it has room when ${vmsUnderDeletion(count)} gone` : missing
    return { code: 'insufficient_capacity', detail }
  }
  const [places] = short
  if (places === undefined) return undefined
  return {
    code: 'console_places_exhausted',
    detail: `VMs that never sleep hold all the console places they may have, ${consolePlaces.known ? consolePlaces.value : 0}: stop one, or let one sleep (sleep_after_idle_seconds above 0)`,
  }
}

/** Returns how many VMs are under deletion, and what they are promised until they are gone. */
function underDeletion(
  store: Store,
  terms: MemoryTerms,
): { readonly count: number; readonly promised: Commitment } {
  const recorded = store.vms.recordedUnderDeletion()
  return { count: countOf(recorded), promised: totalsOf(ledgerOf(recorded, NO_SHARES, terms)) }
}

const countOf = ({ classes }: Recorded): number => classes.reduce((all, { vms }) => all + vms, 0)

const vmsUnderDeletion = (count: number): string =>
  count === 1 ? 'the VM under deletion is' : `the ${count} VMs under deletion are`

/**
 * Returns why the VM must not become larger than all VMs together may be. A VM that has lent its memory is promised
 * only a part of it, and could never have the rest back.
 */
export function refuseTooLarge(
  { capacity }: CommandContext,
  { monitor, desired: before }: Pick<VmRecord, 'monitor' | 'desired'>,
  desired: Desired,
): Refusal | undefined {
  const [wasMib, needMib] = [before, desired].map(
    (each) => commitmentOf({ monitor, desired: each }, capacity.memoryTerms()).memoryMib,
  ) as [number, number]
  if (needMib <= wasMib) return undefined
  const { memoryMib } = capacity.allocatable()
  if (!memoryMib.known) return memoryMib
  if (needMib <= memoryMib.value) return undefined
  const detail = `the VM would need ${needMib} MiB of memory with its monitor, and all VMs of this host together may have ${memoryMib.value} MiB: ask for less`
  return { code: 'insufficient_capacity', detail }
}

/** Returns a user id that no VM has. */
export function freeUserId(store: Store): Result<UserId, Rejection> {
  const userId = store.vms.freeUserId()
  if (userId !== undefined) return ok(userId)
  const count = countOf(store.vms.recordedUnderDeletion())
  const used = 'every user id of the configured range belongs to a VM: delete VMs, or raise vms.user_id_count'
  const detail = count === 0 ? used : `${used}; the range has room when ${vmsUnderDeletion(count)} gone`
  return err({ code: 'user_ids_exhausted', detail })
}

/**
 * Returns why this host runs no new VM with a monitor of this kind. `pointer` is the place of the kind in the request.
 */
export function refuseMonitor(
  { capacity }: CommandContext,
  kind: MonitorKind,
  pointer: string,
): Rejection | undefined {
  const { kinds } = capacity.monitors()
  if (kinds[kind].isOffered) return undefined
  const others = MONITOR_KINDS.filter((other) => kinds[other].isOffered)
  const instead = others.length === 0 ? 'it offers no other' : `it offers ${others.join(' and ')}`
  return {
    code: 'monitor_not_offered',
    detail: `this host does not offer ${kind}: ${kinds[kind].because}; ${instead}`,
    errors: [{ pointer, code: 'not_allowed', detail: `must be one that the host offers` }],
  }
}
