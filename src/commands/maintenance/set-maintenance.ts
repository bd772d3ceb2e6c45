import { isDeepStrictEqual } from 'node:util'
import { given } from '../../lib/given.ts'
import type { Maintenance, WantedMaintenance } from '../../core/maintenance/maintenance.ts'
import type { CommandContext } from '../context.ts'

/** An accepted change of the host's state. `changed` is false if it asked for what is already desired. */
export type SetMaintenance = { readonly maintenance: Maintenance; readonly changed: boolean }

/** Stores the desired state of the host. A state that stays keeps the time of its beginning. */
export function setMaintenance(
  { store, now, pokeHost }: Pick<CommandContext, 'store' | 'now' | 'pokeHost'>,
  wanted: WantedMaintenance,
): SetMaintenance {
  const result = store.transaction(() => {
    const before = store.maintenance.get()
    const { sinceMs, emptySinceMs, ...rest } = before
    if (isDeepStrictEqual(rest, wanted)) return { maintenance: before, changed: false }
    const nowMs = now()
    const times = before.state === wanted.state ? { sinceMs, emptySinceMs } : { sinceMs: nowMs }
    const maintenance: Maintenance = { ...wanted, ...given(times) }
    store.maintenance.set(maintenance, nowMs)
    return { maintenance, changed: true }
  })
  if (result.changed) pokeHost(`the host is to be ${wanted.state}`)
  return result
}
