import { mayBeSaved } from '../plan/plan-wake.ts'
import { owesStop } from '../vm/record.ts'
import { isSaved } from '../world/saved-state.ts'
import { isGone } from '../world/world.ts'
import type { Grace, LastStop, Progress, StopKind, VmRecord } from '../vm/record.ts'
import type { World } from '../world/world.ts'

/** A record during or after the grace of its stop. `ended`: this look ends the grace. */
export type Graced = { readonly record: VmRecord; readonly ended?: Required<LastStop> }

/**
 * Returns the record to plan with. While the grace of a stop lasts, that is the record of a VM that should run: its
 * guest is woken, restored and resumed as always, and asked to end (`askToEnd`). When the guest has ended, or the time
 * is over, the stop is like any other. `nowMs` is by the clock that the end of the grace in `record` is by.
 */
export function withGrace(record: VmRecord, world: World, nowMs: number): Graced {
  const { desired, stops, deleting } = record
  const { grace, ...rest } = stops
  if (grace === undefined) return { record }
  const kind = deleting ? 'hard' : howEnded(record, world, nowMs)
  if (kind === undefined && owesStop(record)) {
    const running = { ...record, desired: { ...desired, power: 'running' as const } }
    return { record: { ...running, stops: { ...stops, accepted: stops.carriedOut } } }
  }
  const ended = { atMs: nowMs, kind: kind ?? 'hard', generation: grace.stop }
  return { record: { ...record, stops: rest }, ended }
}

/** Returns how the grace ended; undefined if it lasts. */
function howEnded(record: VmRecord, world: World, nowMs: number): StopKind | undefined {
  const { grace } = record.stops
  if (grace === undefined || nowMs >= grace.untilMs) return 'deadline'
  if (!isOver(record, world)) return undefined
  const isClean = world.unit.known && world.unit.value.kind === 'absent'
  return isClean && grace.askedAtMs !== undefined ? 'graceful' : 'hard'
}

/** Returns whether no guest is left, neither in a unit nor in the pool. */
function isOver(record: VmRecord, { unit, monitor, saved }: World): boolean {
  if (!unit.known || unit.value.kind === 'foreign') return false
  const isInPool = saved.known ? isSaved(saved.value) : mayBeSaved(record)
  if (isInPool) return false
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
