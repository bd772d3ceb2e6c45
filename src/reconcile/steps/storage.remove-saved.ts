import type { Executor } from './executor.ts'

/** Afterwards no start can find anything that was saved of the guest. */
export const removeSaved: Executor<'storage.remove-saved'> = (_step, { host, record }) =>
  host.savedStates.remove(record.id)
