import { isGone } from '../world/world.ts'
import { err, ok } from '../../lib/result.ts'
import { given } from '../../lib/given.ts'
import type { VmId, Sha256, UserId } from '../ids.ts'
import type { UnitState, DiskState, FoundMark } from '../world/world.ts'
import type { Restored } from './judge-restored.ts'
import type { Result } from '../../lib/result.ts'
import type { SaveTerms } from '../world/saved-state.ts'

/** Units and disks of VMs on the host, whatever the records say. */
export type HostListing = {
  readonly units: readonly {
    readonly id: VmId
    readonly state: UnitState
    readonly storeId: string | undefined
  }[]
  /** Ids that have a directory in the pool. */
  readonly disks: readonly VmId[]
}

/**
 * Returns what the daemon does with VMs of the host that have no record. It sweeps a unit of its own store that has no
 * disk, and leaves everything else alone ([0004](../../../docs/adr/0004-what-a-sweep-may-remove.md)).
 */
export function judgeOrphans(
  { units, disks }: HostListing,
  recorded: ReadonlySet<VmId>,
  storeId: string,
): ReadonlyMap<VmId, Restored> {
  const withDisk = new Set(disks)
  const judged = new Map<VmId, Restored>()
  for (const id of withDisk) judged.set(id, { kind: 'lacks', because: 'its disk stays, without a record' })
  for (const { id, state, storeId: owner } of units) {
    if (isGone(state)) continue
    const isSwept = owner === storeId && !withDisk.has(id)
    judged.set(
      id,
      isSwept
        ? { kind: 'ends', because: 'its guest runs, and it has neither a record nor a disk' }
        : { kind: 'lacks', because: 'its guest runs on, without a record' },
    )
  }
  for (const id of recorded) judged.delete(id)
  return judged
}

/** A VM on the host that has no record, as it was found. `saved`: its saved guest, if it has one. */
export type FoundOrphan = {
  readonly unit: UnitState
  readonly disk: DiskState
  readonly saved?: SaveTerms
}

/** All facts that the host has of a VM without a record. */
export type Orphan = {
  /** The store that it belongs to; absent if neither its disk nor its unit names one. */
  readonly storeId?: string
  /** Absent if neither names it. */
  readonly createdAtMs?: number
  /** The user of its monitor; absent if owner and mode of the disk do not show it. */
  readonly userId?: UserId
  readonly diskMib: number
  readonly rootfsSha256?: Sha256
  readonly rebuild?: number
  readonly guest?: 'runs' | 'sleeps'
  readonly saved?: SaveTerms
}

/** Returns what is known of a VM without a record, or why it cannot get one. */
export function judgeOrphan({ unit, disk, saved }: FoundOrphan): Result<Orphan, string> {
  if (disk.kind !== 'present') return err('it has no disk in the pool')
  const runs = !isGone(unit)
  if (saved !== undefined && runs) return err('its guest is being saved or restored: wait, or stop its unit')
  const { note } = disk
  const ofUnit = unit.kind === 'active' || unit.kind === 'activating' ? unit.mark : undefined
  if (note !== undefined && ofUnit !== undefined && !isSame(note.mark, ofUnit))
    return err('its unit and its disk belong to different VMs: stop the unit first')
  const mark = note?.mark ?? ofUnit
  return ok(
    given({
      storeId: mark?.storeId,
      createdAtMs: mark?.createdAtMs,
      userId: disk.usableBy,
      diskMib: disk.sizeMib,
      rootfsSha256: note?.rootfsSha256,
      rebuild: note?.rebuild,
      guest: runs ? ('runs' as const) : saved === undefined ? undefined : ('sleeps' as const),
      saved,
    }),
  )
}

const isSame = (one: FoundMark, other: FoundMark): boolean =>
  one.storeId === other.storeId &&
  (one.createdAtMs === other.createdAtMs || one.createdAtMs === undefined || other.createdAtMs === undefined)

/**
 * How a VM becomes one of this store. `own`: it is one. `adopt`: the store takes the id that the VM has, so all others
 * of that id are its own too. `remark`: the note beside its disk is written again.
 */
export type Joining =
  | { readonly kind: 'own' | 'remark' }
  | { readonly kind: 'adopt'; readonly storeId: string }

/** Returns how the VM joins the store; only a store without any record takes another id. */
export function judgeJoining(
  { storeId, guest }: Orphan,
  store: { readonly storeId: string; readonly isEmpty: boolean },
): Result<Joining, string> {
  if (storeId === store.storeId) return ok({ kind: 'own' })
  if (storeId !== undefined && store.isEmpty) return ok({ kind: 'adopt', storeId })
  if (guest !== 'runs') return ok({ kind: 'remark' })
  return err('its guest runs under another state directory, and this one has records: stop its unit first')
}
