import { vmOfEvent } from '../../../core/events/event.ts'
import { lacksChanges } from '../../../core/events/history.ts'
import { limits } from '../../../config/limits.ts'
import { Refused } from '../../listener/refused.ts'
import { vmToWire } from '../../wire/vm-to-wire.ts'
import { contextOf } from './vm-parts.ts'
import type { VmId } from '../../../core/ids.ts'
import type { Store } from '../../../store/store.ts'
import type { ChangedVm } from '../../../store/vm/read-rows.ts'
import type { VmListWire } from '../../wire/vm.ts'
import type { ApiDependencies } from '../dependencies.ts'

type Since = {
  /** The revision that the reader knows. */
  readonly after: number
  readonly limit: number
  /** How long to wait for a change if there is none. */
  readonly waitMs: number
  readonly signal: AbortSignal
}

/** Returns the VMs that have changed since a revision, in the order of their changes, and those that are gone. */
export async function changedVms(dependencies: ApiDependencies, since: Since): Promise<VmListWire> {
  const { store } = contextOf(dependencies)
  const first = look(store, since)
  const isSame = first.changed.length === 0 && first.deleted.length === 0
  if (isSame && since.waitMs > 0) await dependencies.listWaits.change('vms', since.waitMs, since.signal)
  const { changed, deleted, revision } = isSame ? look(store, since) : first
  // Answer only what is on the disk.
  await store.flushedAll()
  const items = changed.flatMap(({ record }) => (record === undefined ? [] : vmToWire(record)))
  return { items, deleted: [...deleted], revision }
}

type Changed = {
  readonly changed: readonly ChangedVm[]
  readonly deleted: readonly VmId[]
  /** All changes up to it are in the answer. */
  readonly revision: number
}

function look({ vms, events }: Store, { after, limit }: Since): Changed {
  const { newest } = events
  if (lacksChanges(events, after)) {
    throw new Refused({
      code: 'changes_not_kept',
      detail: `what changed since revision ${after} is not known any more: list all VMs, and go on with the revision of that answer`,
    })
  }
  const changed = vms.changedAfter(after, limit)
  // If there may be more, the next request begins after the last of these.
  const revision = changed.length < limit ? newest : (changed.at(-1)?.revision ?? newest)
  const gone = events
    .list({ after, kind: 'vm_deleted', limit: limits.eventsMax + limits.eventsPruneEvery })
    .flatMap(({ sequence, body }) => (sequence > revision ? [] : (vmOfEvent(body) ?? [])))
  const deleted = [...new Set(gone)].filter((id) => vms.revisionOf(id) === undefined)
  return { changed, deleted, revision }
}
