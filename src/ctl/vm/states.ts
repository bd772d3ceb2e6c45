import type { Vm } from '../../client/api-client.ts'

/** A record by name: a state that is added to the API does not compile until it is here. */
const all: Record<Vm['observed']['state'], true> = {
  pending: true,
  starting: true,
  running: true,
  pausing: true,
  paused: true,
  stopping: true,
  stopped: true,
  sleeping: true,
  waking: true,
  deleting: true,
  failed: true,
}

export const STATES = Object.keys(all) as readonly Vm['observed']['state'][]
