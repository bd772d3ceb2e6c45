import { judgeOrphans } from '../../core/recovery/judge-orphans.ts'
import { judgeRestored, losesSomething } from '../../core/recovery/judge-restored.ts'
import { given } from '../../lib/given.ts'
import { listHost, lookAtVm } from './look-at-host.ts'
import type { VmId } from '../../core/ids.ts'
import type { Restored } from '../../core/recovery/judge-restored.ts'
import type { Store } from '../../store/store.ts'
import type { Moved } from '../../store/backup/moved-since.ts'
import type { RecoveryHost } from './look-at-host.ts'

/** The decisions of the operator about single VMs. */
export type Words = {
  /** These may lose their guest or their disk. */
  readonly end: readonly VmId[]
  /** These get no record. */
  readonly leaveOut: readonly VmId[]
}

/** The effect on each VM, in the order of ids. */
export type Outlook = {
  readonly vms: readonly (Restored & { readonly id: VmId; readonly isRecorded: boolean })[]
  /** VMs that would lose something without the word of the operator. */
  readonly unsaid: readonly VmId[]
  /** VMs that have moved away since. Their records can only be left out. */
  readonly moved: readonly VmId[]
}

/** The options name a VM that they cannot be about. */
export class UnknownVm extends Error {
  override readonly name = 'UnknownVm'
}

/** Compares records that may be put back with the host, and with those that they replace. Throws HostFault if a look fails, and UnknownVm. */
export async function compareWithHost(
  store: Store,
  host: RecoveryHost,
  {
    words: { end, leaveOut },
    moved,
    nowMs,
  }: { readonly words: Words; readonly moved: Moved; readonly nowMs: number },
): Promise<Outlook> {
  const all = store.vms.all()
  const records = all.filter(({ id }) => !leaveOut.includes(id))
  const listing = await listHost(host)
  const recorded = new Set(records.map(({ id }) => id))
  const vms: Outlook['vms'][number][] = []
  for (const record of records) {
    const found = await lookAtVm(host, record, store.storeId)
    const judged = judgeRestored(record, { ...found, ...given({ movedTo: moved.get(record.id) }) }, nowMs)
    vms.push({ id: record.id, isRecorded: true, ...judged })
  }
  for (const [id, judged] of judgeOrphans(listing, recorded, store.storeId))
    vms.push({ id, isRecorded: false, ...judged })
  refuseUnknown('--leave-out', leaveOut, new Set(all.map(({ id }) => id)))
  refuseUnknown('--end', end, new Set(vms.map(({ id }) => id)))
  return {
    vms: vms.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    unsaid: vms.filter((vm) => losesSomething(vm) && !end.includes(vm.id)).map(({ id }) => id),
    moved: vms.filter(({ kind }) => kind === 'moved').map(({ id }) => id),
  }
}

function refuseUnknown(option: string, ids: readonly VmId[], known: ReadonlySet<VmId>): void {
  const unknown = ids.find((id) => !known.has(id))
  if (unknown !== undefined)
    throw new UnknownVm(`${option} ${unknown}: there is no such VM among these records`)
}
