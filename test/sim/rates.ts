/** How often each thing happens in a history, and by how much. */
import { limits } from '../../src/config/limits.ts'
import type { WantedMaintenance } from '../../src/core/maintenance/maintenance.ts'

/**
 * Share of rounds that begin with a disturbance behind the daemon's back. None happens during a pass, so that its
 * observations stay true.
 */
export const DISTURBANCES = 0.3
/** Share of rounds after which the host loses its power. */
export const REBOOTS = 0.02
/** Share of rounds after which the host shuts down and boots. */
export const SHUTDOWNS = 0.02
/** Share of rounds after which somebody sets the clock, and by how much. */
export const CLOCK_SETS = 0.1
/** Share of rounds after which destinations take a step. */
export const MOVES = 0.7
/** Share of rounds during which the pool is hidden. */
export const OUTAGES = 0.05
export const KEPT_AWAKE_MS: [number, ...number[]] = [0, 3000, 20_000]
export const SETS_MS: [number, ...number[]] = [-3_600_000, -3000, 3000, 3_600_000]
/** Time for guests to end by themselves. Some of them do. */
export const GRACES_SECONDS: [number, ...number[]] = [0, 0, 2, 60]
/** States of the host. Guests that stop are reboots, which histories have anyway. */
export const MAINTENANCE: [WantedMaintenance, ...WantedMaintenance[]] = [
  { state: 'schedulable' },
  { state: 'schedulable' },
  { state: 'cordoned' },
  { state: 'drained', drain: { guests: 'sleep', graceSeconds: 0, atOnce: 1 } },
  { state: 'drained', drain: { guests: 'sleep', graceSeconds: 0, atOnce: 3 } },
]
/** Approximate length of a pass over fakes. */
export const MICROTASKS_A_PASS = 60
/** Longer than any back-off, resync or deadline that is not an hour. */
export const HEAL_MS = 10 * 60_000
/** Time to rest if no call failed. */
export const REST_MS = 2 * limits.resyncMs

/** Turns of the event loop after which a pass must have ended. Fakes never wait for anything real. */
export const TURNS_MAX = 5000
