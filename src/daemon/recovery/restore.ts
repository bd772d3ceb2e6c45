import { judgeOrphans } from '../../core/recovery/judge-orphan.ts'
import { judgeRestored, losesSomething } from '../../core/recovery/judge-restored.ts'
import { isNotReleased } from '../../core/vm/leaving.ts'
import { given } from '../../lib/given.ts'
import { listHost, lookAtVm, userIdsOf, withoutPool } from './look-at-host.ts'
import type { UserId, VmId } from '../../core/ids.ts'
import type { FoundVm, Restored } from '../../core/recovery/judge-restored.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Store } from '../../store/store.ts'
import type { MovedSince } from '../../store/backup/moved-since.ts'
import type { ComparedHost } from './look-at-host.ts'

/** The decisions of the operator about VMs. */
export type Words = {
  /** These may lose their guest or their disk. */
  readonly end: readonly VmId[]
  /** These get no record. */
  readonly leaveOut: readonly VmId[]
  /** No VM that gets a record has moved away, unless the present records say so. */
  readonly noneMoved: boolean
  /** The pool is gone for good, with the disks of all VMs. */
  readonly poolLost: boolean
}

/** The effect on each VM, in the order of ids. */
export type Outlook = {
  readonly vms: readonly (Restored & { readonly id: VmId; readonly isRecorded: boolean })[]
  /** VMs that would lose something without the word of the operator. */
  readonly unsaid: readonly VmId[]
  /** VMs that have moved away since. Their records can only be left out. */
  readonly moved: readonly VmId[]
  /** VMs that would run here, and may have moved away since without a trace here. */
  readonly unsure: readonly VmId[]
  /** Users of disks whose VMs get no record. */
  readonly userIdsOnHost: readonly UserId[]
  /** Why the present records cannot be read; absent if they can. */
  readonly unreadable?: string
}

/** The options name a VM that they cannot be about. */
export class UnknownVm extends Error {
  override readonly name = 'UnknownVm'
}

/**
 * Compares records that may be put back with the host, and with those that they replace.
 * Throws HostFault if a look fails, and UnknownVm.
 */
export async function compareWithHost(
  store: Store,
  present: ComparedHost,
  {
    words: { end, leaveOut, noneMoved, poolLost },
    moved,
    nowMs,
  }: { readonly words: Words; readonly moved: MovedSince; readonly nowMs: number },
): Promise<Outlook> {
  const all = new Set(store.vms.ids())
  const recorded = new Set([...all].filter((id) => !leaveOut.includes(id)))
  const host = poolLost ? withoutPool(present) : present
  const listing = await listHost(host)
  const judge = async (id: VmId): Promise<Restored> => {
    const record = store.vms.readable(id)
    if (record === undefined) return UNREADABLE
    const found = await lookAtVm(host, record, store.storeId)
    const facts = { ...found, ...given({ isPoolLost: poolLost || undefined }) }
    return judgeRestored(record, { ...facts, ...sinceThen(record, moved, noneMoved) }, nowMs)
  }
  const vms: Outlook['vms'][number][] = []
  for (const id of recorded) vms.push({ id, isRecorded: true, ...(await judge(id)) })
  for (const [id, judged] of judgeOrphans(listing, recorded, store.storeId))
    vms.push({ id, isRecorded: false, ...judged })
  refuseUnknown('--leave-out', leaveOut, all)
  refuseUnknown('--end', end, new Set(vms.map(({ id }) => id)))
  const idsOf = (kind: Restored['kind']) => vms.filter((vm) => vm.kind === kind).map(({ id }) => id)
  return {
    vms: vms.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    unsaid: vms.filter((vm) => losesSomething(vm) && !end.includes(vm.id)).map(({ id }) => id),
    moved: idsOf('moved'),
    unsure: idsOf('unsure'),
    userIdsOnHost: await userIdsOf(
      host,
      listing.disks.filter((id) => !recorded.has(id)),
    ),
    ...given({ unreadable: moved.unreadable }),
  }
}

/** The daemon does nothing for a VM whose record it cannot read, and ends nothing of it. */
const UNREADABLE: Restored = { kind: 'lacks', because: 'its record cannot be read' }

/** Returns what is known of the moves of a VM since its record was written. */
function sinceThen(
  record: VmRecord,
  { to, comingFrom, stayed }: MovedSince,
  noneMoved: boolean,
): Pick<FoundVm, 'movedTo' | 'mayHaveMoved'> {
  // A record that is itself of a VM on its way runs nothing before the source has released it.
  const { id } = record
  const movedTo = to.get(id) ?? (isNotReleased(record) ? undefined : comingFrom.get(id))
  const isKnown = noneMoved || stayed.has(id) || comingFrom.has(id)
  return given({ movedTo, mayHaveMoved: isKnown ? undefined : (true as const) })
}

function refuseUnknown(option: string, ids: readonly VmId[], known: ReadonlySet<VmId>): void {
  const unknown = ids.find((id) => !known.has(id))
  if (unknown !== undefined)
    throw new UnknownVm(`${option} ${unknown}: there is no such VM among these records`)
}
