import { isDeepStrictEqual } from 'node:util'
import { isLeft } from '../../core/maintenance/drain.ts'
import { given } from '../../lib/given.ts'
import type { Maintenance, WantedMaintenance } from '../../core/maintenance/maintenance.ts'
import type { CommandContext } from '../context.ts'

/** An accepted change of the host's state. `changed` is false if it asked for what is already desired. */
export type SetMaintenance = { readonly maintenance: Maintenance; readonly changed: boolean }

type Context = Pick<CommandContext, 'store' | 'bootId' | 'now' | 'newOperationId' | 'pokeHost'>

/**
 * Stores the desired state of the host. A state that stays keeps the time of its beginning. A host without a guest, and
 * without what is left of one, is empty at once.
 */
export function setMaintenance(
  { store, bootId, now, newOperationId, pokeHost }: Context,
  wanted: WantedMaintenance,
): SetMaintenance {
  const result = store.transaction(() => {
    const before = store.maintenance.get()
    const { sinceMs, emptySinceMs, operationId: _last, ...rest } = before
    if (isDeepStrictEqual(rest, wanted)) return { maintenance: before, changed: false }
    const nowMs = now()
    const isEmpty = wanted.state === 'drained' && !isAnyLeft({ store, bootId })
    const times =
      before.state === wanted.state
        ? { sinceMs, emptySinceMs }
        : { sinceMs: nowMs, emptySinceMs: isEmpty ? nowMs : undefined }
    const maintenance: Maintenance = { ...wanted, ...given(times), operationId: newOperationId() }
    store.maintenance.set(maintenance, nowMs)
    return { maintenance, changed: true }
  })
  if (result.changed) pokeHost(`the host is to be ${wanted.state}`)
  return result
}

/** A VM whose record cannot be read may have a guest. */
const isAnyLeft = ({ store, bootId }: Pick<CommandContext, 'store' | 'bootId'>): boolean =>
  store.vms.ids().some((id) => {
    const record = store.vms.readable(id)
    return record === undefined || isLeft(record, bootId)
  })
