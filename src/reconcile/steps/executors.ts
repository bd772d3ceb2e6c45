import { limits } from '../../config/limits.ts'
import { ensureMaster } from './console.ensure-master.ts'
import { endSession } from './console.end-session.ts'
import { removeMaster } from './console.remove-master.ts'
import { removeConsole } from './console.remove.ts'
import { ensureFetched } from './image.ensure-fetched.ts'
import { ensureDiskLimits } from './monitor.ensure-disk-limits.ts'
import { ensureDiskSize } from './monitor.ensure-disk-size.ts'
import { ensureRestored } from './monitor.ensure-restored.ts'
import { ensureSaved } from './monitor.ensure-saved.ts'
import { ensurePaused } from './monitor.ensure-paused.ts'
import { ensureRunning } from './monitor.ensure-running.ts'
import { ensureAttached } from './network.ensure-attached.ts'
import { ensureFirewall } from './network.ensure-firewall.ts'
import { ensureTap } from './network.ensure-tap.ts'
import { removeFirewall } from './network.remove-firewall.ts'
import { removeTap } from './network.remove-tap.ts'
import { ensureDisk } from './storage.ensure-disk.ts'
import { ensureSeed } from './storage.ensure-seed.ts'
import { removeSaved } from './storage.remove-saved.ts'
import { ensureFlowing } from './traffic.ensure-flowing.ts'
import { ensureHeld } from './traffic.ensure-held.ts'
import { ensureWatched } from './traffic.ensure-watched.ts'
import { removeDisk } from './storage.remove-disk.ts'
import { ensureStarted } from './unit.ensure-started.ts'
import { ensureStopped } from './unit.ensure-stopped.ts'
import type { Step, StepKind } from '../../core/plan/step.ts'
import type { VmRecord } from '../../core/vm/record.ts'
import type { Executor, StepContext } from './executor.ts'

/** Milliseconds that a step has; of some it goes by the VM. */
type Deadline = number | ((record: VmRecord) => number)

type Table = { readonly [K in StepKind]: { readonly execute: Executor<K>; readonly deadlineMs: Deadline } }

/** One executor a step, with the time it has. A step without one does not compile. */
const table: Table = {
  'image.ensure-fetched': { execute: ensureFetched, deadlineMs: limits.imageFetchMs },
  'storage.ensure-disk': { execute: ensureDisk, deadlineMs: limits.diskCloneMs },
  'storage.ensure-seed': { execute: ensureSeed, deadlineMs: limits.stepMs },
  'storage.remove-disk': { execute: removeDisk, deadlineMs: limits.stepMs },
  'storage.remove-saved': { execute: removeSaved, deadlineMs: limits.stepMs },
  'network.ensure-tap': { execute: ensureTap, deadlineMs: limits.stepMs },
  'network.ensure-firewall': { execute: ensureFirewall, deadlineMs: limits.stepMs },
  'network.ensure-attached': { execute: ensureAttached, deadlineMs: limits.stepMs },
  'network.remove-tap': { execute: removeTap, deadlineMs: limits.stepMs },
  'network.remove-firewall': { execute: removeFirewall, deadlineMs: limits.stepMs },
  'traffic.ensure-watched': { execute: ensureWatched, deadlineMs: limits.stepMs },
  'traffic.ensure-held': { execute: ensureHeld, deadlineMs: limits.stepMs },
  'traffic.ensure-flowing': { execute: ensureFlowing, deadlineMs: limits.stepMs },
  'console.ensure-master': { execute: ensureMaster, deadlineMs: limits.stepMs },
  'console.remove-master': { execute: removeMaster, deadlineMs: limits.stepMs },
  'console.end-session': { execute: endSession, deadlineMs: limits.stepMs },
  'console.remove': { execute: removeConsole, deadlineMs: limits.stepMs },
  'unit.ensure-started': { execute: ensureStarted, deadlineMs: limits.stepMs },
  'unit.ensure-stopped': { execute: ensureStopped, deadlineMs: limits.stepMs },
  'monitor.ensure-running': { execute: ensureRunning, deadlineMs: limits.stepMs },
  'monitor.ensure-paused': { execute: ensurePaused, deadlineMs: limits.stepMs },
  'monitor.ensure-saved': { execute: ensureSaved, deadlineMs: limits.saveMs },
  'monitor.ensure-restored': { execute: ensureRestored, deadlineMs: restoreMsOf },
  'monitor.ensure-disk-size': { execute: ensureDiskSize, deadlineMs: limits.stepMs },
  'monitor.ensure-disk-limits': { execute: ensureDiskLimits, deadlineMs: limits.stepMs },
}

export function deadlineMsOf(step: Step, record: VmRecord): number {
  const { deadlineMs } = table[step.kind]
  return typeof deadlineMs === 'number' ? deadlineMs : deadlineMs(record)
}

/** By the length of the saved memory, or of the guest's memory while that is not known. */
function restoreMsOf({ observed, desired }: VmRecord): number {
  const mib = observed.savedState?.sizeMib ?? desired.compute.memoryMib
  return limits.restoreMs + mib * limits.restoreMsPerMib
}

/** Runs a step. Throws what its driver throws. */
export function execute(step: Step, context: StepContext): Promise<void> {
  // The table pairs each kind with the executor of just that kind; TypeScript cannot follow that through the lookup.
  const run = table[step.kind].execute as (step: Step, context: StepContext) => Promise<void>
  return run(step, context)
}
