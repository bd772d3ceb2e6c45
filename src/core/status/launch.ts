import { exitInWords } from '../monitor/exit-status.ts'
import { mayBeInPool } from '../vm/at-rest.ts'
import { isHeldBack } from '../vm/leaving.ts'
import { mustEnd } from '../vm/record.ts'
import { brokenWords, isAsleep, isGone } from '../world/world.ts'
import type { Step } from '../plan/step.ts'
import type { Now } from './grace.ts'
import type { Launch, VmRecord } from '../vm/record.ts'
import type { ConsoleState, World } from '../world/world.ts'

/** The difference between the launch on record and what the host shows. */
export type LaunchFinding =
  | { readonly kind: 'as-recorded' }
  /**
   * A unit of this VM is active but no launch is on record: the daemon died between the start and its record. Or the
   * launch on record was to end quietly, and its unit stays.
   */
  | { readonly kind: 'adopted'; readonly launch: Launch }
  /**
   * The guest is saved in the pool and no unit has it: its restore failed, or the daemon died before it noted the end
   * of the unit.
   */
  | { readonly kind: 'asleep' }
  /** The daemon ended the unit for a move and did not note that, or the launch comes from a backup. */
  | { readonly kind: 'ended-quietly' }
  /** The VM was started in an earlier boot, and the host went down without saving it. `ranMs`: until this look. */
  | { readonly kind: 'lost'; readonly because: string; readonly ranMs: number }
  /** The VM was started in this boot, was not asked to stop, and has ended. */
  | (Over & { readonly kind: 'exited'; readonly ranMs: number })

/** How a monitor ended, or its guest. */
type Over = {
  readonly because: string
  /** The monitor ended without an error, as it does whenever its guest ends. */
  readonly isClean: boolean
  /** Exit status of the monitor; absent if none was seen. */
  readonly status?: number
}

/** Decides whether a VM ended by itself. An inspection that failed proves nothing. */
export function findLaunch(record: VmRecord, world: World, now: Now): LaunchFinding {
  const { launch } = record
  if (!world.unit.known) return { kind: 'as-recorded' }
  const unit = world.unit.value
  if (unit.kind === 'foreign') return { kind: 'as-recorded' }
  const thisBoot = launch?.bootId === now.bootId
  if (!thisBoot) {
    if (launch !== undefined && wasLost(record, launch, world)) {
      const because = 'the host went down without saving the guest'
      return { kind: 'lost', because, ranMs: Math.max(0, now.nowMs - launch.atMs) }
    }
    // An end was noted when it happened, and the plan is about to remove its unit.
    if (unit.kind !== 'active' || whyOver(world) !== undefined) return { kind: 'as-recorded' }
    return { kind: 'adopted', launch: launchOf(unit, record, now.bootId) }
  }
  if (mustEnd(record)) return { kind: 'as-recorded' }
  if (mayBeInPool(record, world)) return { kind: isAsleep(world) ? 'asleep' : 'as-recorded' }
  const over = whyOver(world)
  if (over === undefined) {
    const { endsQuietly, ...continuing } = launch
    const stays = endsQuietly === true && unit.kind === 'active' && !isHeldBack(record)
    if (!stays) return { kind: 'as-recorded' }
    // A unit that was started since has another guest than the launch of a backup.
    const isSame = unit.startedAtMs <= launch.atMs
    return { kind: 'adopted', launch: isSame ? continuing : launchOf(unit, record, now.bootId) }
  }
  if (launch.endsQuietly === true) return { kind: 'ended-quietly' }
  return { kind: 'exited', ...over, ranMs: Math.max(0, now.nowMs - launch.atMs) }
}

/**
 * Returns whether the guest of a launch of an earlier boot is gone with that boot. A launch goes from the record with
 * each end that was noted.
 */
const wasLost = (record: VmRecord, launch: Launch, world: World): boolean =>
  world.unit.known &&
  isGone(world.unit.value) &&
  launch.endsQuietly !== true &&
  !mustEnd(record) &&
  !isHeldBack(record) &&
  !mayBeInPool(record, world)

type Started = { readonly startedAtMs: number }

/** Returns the launch of a unit whose start is not on record. */
const launchOf = ({ startedAtMs }: Started, { desired }: VmRecord, bootId: string): Launch => ({
  bootId,
  atMs: startedAtMs,
  compute: desired.compute,
})

/**
 * Returns the launch to put on record before these steps end the unit of a guest that moves without its memory;
 * undefined if they do not. Without that note, a daemon that dies in the step would leave an end that looks like one of
 * the guest itself.
 */
export function launchBeforeMove(record: VmRecord, steps: readonly Step[]): Launch | undefined {
  const { launch, departure } = record
  if (launch === undefined || departure?.mode !== 'cold' || !isHeldBack(record)) return undefined
  const ends = steps.some(({ kind }) => kind === 'unit.ensure-stopped')
  return ends && launch.endsQuietly !== true ? { ...launch, endsQuietly: true } : undefined
}

/** The states of a console whose terminal no process holds open. */
const HUNG_UP: ReadonlySet<ConsoleState['kind']> = new Set(['absent', 'detached', 'ended'])

function whyOver({ unit, monitor, console }: World): Over | undefined {
  if (!unit.known) return undefined
  if (unit.value.kind === 'failed') {
    const { result, status } = unit.value
    return { because: `the monitor ended: ${exitInWords(result, status)}`, isClean: false, status }
  }
  if (unit.value.kind === 'leftover') {
    const because = 'the monitor ended, or its unit lost sight of it: processes are left in the control group'
    return { because, isClean: false }
  }
  if (unit.value.kind === 'absent') {
    // QEMU ends in the same way when its terminal hangs up and when its guest shuts down.
    return console.known && HUNG_UP.has(console.value.kind)
      ? {
          because: 'the monitor ended: its console was closed (SIGHUP), because no descriptor store held it',
          isClean: false,
        }
      : {
          because: 'the monitor ended: the guest shut down, or its unit was stopped',
          isClean: true,
          status: 0,
        }
  }
  if (unit.value.kind === 'active' && monitor.known && monitor.value.kind === 'broken') {
    return { because: brokenWords(monitor.value), isClean: false }
  }
  return undefined
}
