import { mayBeInPool } from '../vm/at-rest.ts'
import { owesStop } from '../vm/record.ts'
import { isGone } from '../world/world.ts'
import type { Grace, LastStop, Progress, StopKind, VmRecord } from '../vm/record.ts'
import type { World } from '../world/world.ts'

/** A record during or after the grace of its stop. `ended`: this look ends the grace. */
export type Graced = { readonly record: VmRecord; readonly ended?: Required<LastStop> }

/** The moment of a look, by the clock that the end of the grace in the record is by, and the boot of the host. */
export type Now = { readonly nowMs: number; readonly bootId: string }

/**
 * Returns the record to plan with. While the grace of a stop lasts, that is the record of a VM that should run: its
 * guest is woken, restored and resumed as always, and asked to end (`askToEnd`). When the guest has ended, or the time
 * is over, the stop is like any other.
 */
export function withGrace(record: VmRecord, world: World, now: Now): Graced {
  const { desired, stops, deleting } = record
  const { grace, ...rest } = stops
  if (grace === undefined) return { record }
  const kind = deleting ? 'hard' : howEnded(record, world, now)
  if (kind === undefined && owesStop(record)) {
    const running = { ...record, desired: { ...desired, power: 'running' as const } }
    return { record: { ...running, stops: { ...stops, accepted: stops.carriedOut } } }
  }
  const ended = { atMs: now.nowMs, kind: kind ?? 'hard', generation: grace.stop }
  return { record: { ...record, stops: rest }, ended }
}

/**
 * Returns how the grace ended; undefined if it lasts. After a boot each unit is gone, so a guest of an earlier boot did
 * not end by itself: its host lost power, or was shut down without a note of its end.
 */
function howEnded(record: VmRecord, world: World, { nowMs, bootId }: Now): StopKind | undefined {
  const { stops, launch } = record
  const isEnded = isOver(record, world)
  if (isEnded && launch?.bootId !== bootId) return 'hard'
  if (stops.grace === undefined || nowMs >= stops.grace.untilMs) return 'deadline'
  if (!isEnded) return undefined
  const isClean = world.unit.known && world.unit.value.kind === 'absent'
  return isClean && stops.grace.askedAtMs !== undefined ? 'graceful' : 'hard'
}

/** Returns whether no guest is left, neither in a unit nor in the pool. */
function isOver(record: VmRecord, world: World): boolean {
  const { unit, monitor } = world
  if (!unit.known || unit.value.kind === 'foreign') return false
  if (mayBeInPool(record, world)) return false
  return (
    isGone(unit.value) || (unit.value.kind === 'active' && monitor.known && monitor.value.kind === 'broken')
  )
}

/** Returns the grace after progress, which may be about an earlier stop. */
export function graceAfter(
  before: Grace | undefined,
  { askedToEnd, graceOver }: Progress,
): Grace | undefined {
  if (before === undefined || graceOver === before.stop) return undefined
  return askedToEnd?.stop === before.stop ? { ...before, askedAtMs: askedToEnd.atMs } : before
}
