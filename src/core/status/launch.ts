import { mayBeSaved } from '../plan/plan-wake.ts'
import { isInPool } from '../world/world.ts'
import { mustEnd } from '../vm/record.ts'
import { exitInWords } from '../monitor/exit-status.ts'
import type { ConsoleState, World } from '../world/world.ts'
import type { Launch, VmRecord } from '../vm/record.ts'

/** The difference between the launch on record and what the host shows. */
export type LaunchFinding =
  | { readonly kind: 'as-recorded' }
  /** A unit of this VM is active but no launch is on record: the daemon died between the start and its record. */
  | { readonly kind: 'adopted'; readonly launch: Launch }
  /** The VM was started in this boot, was not asked to stop, and has ended. */
  | { readonly kind: 'exited'; readonly because: string; readonly ranMs: number }

/** Decides whether a VM ended by itself. An inspection that failed proves nothing. */
export function findLaunch(
  record: VmRecord,
  world: World,
  now: { nowMs: number; bootId: string },
): LaunchFinding {
  const { launch } = record
  if (!world.unit.known) return { kind: 'as-recorded' }
  const unit = world.unit.value
  if (unit.kind === 'foreign') return { kind: 'as-recorded' }
  const thisBoot = launch?.bootId === now.bootId
  if (!thisBoot) {
    // An end was noted when it happened, and the plan is about to remove its unit.
    if (unit.kind !== 'active' || whyOver(world) !== undefined) return { kind: 'as-recorded' }
    const adopted = { bootId: now.bootId, atMs: unit.startedAtMs, compute: record.desired.compute }
    return { kind: 'adopted', launch: adopted }
  }
  if (mustEnd(record)) return { kind: 'as-recorded' }
  // A saved guest has not ended, whatever happened to the unit. If the pool cannot be inspected, the record decides.
  const mayBeInPool = world.saved.known ? isInPool(world) : mayBeSaved(record)
  if (mayBeInPool) return { kind: 'as-recorded' }
  const because = whyOver(world)
  return because === undefined
    ? { kind: 'as-recorded' }
    : { kind: 'exited', because, ranMs: Math.max(0, now.nowMs - launch.atMs) }
}

/** The states of a console whose terminal no process holds open. */
const HUNG_UP: ReadonlySet<ConsoleState['kind']> = new Set(['absent', 'detached', 'ended'])

function whyOver({ unit, monitor, console }: World): string | undefined {
  if (!unit.known) return undefined
  if (unit.value.kind === 'failed') {
    return `the monitor ended: ${exitInWords(unit.value.result, unit.value.status)}`
  }
  if (unit.value.kind === 'leftover') {
    return 'the monitor ended, or its unit lost sight of it: processes are left in the control group'
  }
  if (unit.value.kind === 'absent') {
    // QEMU ends in the same way when its terminal hangs up and when its guest shuts down.
    return console.known && HUNG_UP.has(console.value.kind)
      ? 'the monitor ended: its console was closed (SIGHUP), because no descriptor store held it'
      : 'the monitor ended: the guest shut down, or its unit was stopped'
  }
  if (unit.value.kind === 'active' && monitor.known && monitor.value.kind === 'broken') {
    return `the guest has ended: its monitor says ${monitor.value.status}`
  }
  return undefined
}
