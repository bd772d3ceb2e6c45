import { diskLimitsOf, imagesOf } from '../../core/desired.ts'
import { HostFault } from '../../core/errors.ts'
import { markOf } from './executor.ts'
import type { MachineSpec } from '../../core/monitor/machine-spec.ts'
import type { StepOf } from '../../core/plan/step.ts'
import type { World } from '../../core/world/world.ts'
import type { Executor, StepContext } from './executor.ts'

/** Ensures that the unit is active, with the VM's stored console as its terminal. */
export const startUnit: Executor<'unit.ensure-started'> = async (step, context) => {
  const { host, record, intent, signal } = context
  // Both at once, because a client may wait for the guest. Neither goes on after the step.
  const tasks = [host.savedStates.ensureDirectory(record.id), machineOf(context, step)] as const
  await Promise.allSettled(tasks)
  const [, machine] = await Promise.all(tasks)
  await host.units.ensureStarted(record.id, host.monitors[record.monitor].unitSpec(machine), signal)
  if (intent.tap !== undefined) await restartIdleClock(context)
}

/**
 * Restarts the idle clock. If that fails, the guest starts anyway, because planning never takes a guest to be idle for
 * longer than it runs.
 */
async function restartIdleClock({ host, record }: StepContext): Promise<void> {
  try {
    await host.traffic.restart(record.host)
  } catch (error) {
    if (!(error instanceof HostFault)) throw error
  }
}

function restoreFormIn({ saved }: World): Pick<MachineSpec, 'restoreForm'> {
  return saved.known && saved.value.kind === 'present' ? { restoreForm: saved.value.form } : {}
}

async function machineOf(
  { host, record, intent, world }: StepContext,
  { paused, restore }: StepOf<'unit.ensure-started'>,
): Promise<MachineSpec> {
  const { id, desired } = record
  const console = await host.consoles.inspect(id)
  if (console.kind !== 'stored') {
    throw new HostFault(
      'console_unprotected',
      `the console of ${id} is ${console.kind}; the VM is not started without it`,
    )
  }
  const saved = host.savedStates.paths(id)
  const files = host.storage.files(id, imagesOf(desired.image))
  return {
    id,
    userId: record.host.userId,
    compute: desired.compute,
    kernelPath: files.kernel,
    ...(files.initrd === undefined ? {} : { initrdPath: files.initrd }),
    diskPath: files.disk,
    diskLimits: diskLimitsOf(desired.disk),
    seedPath: files.seed,
    guestMetadata: intent.seed.guestMetadata,
    kernelArguments: desired.image.kernelArguments ?? '',
    ...(intent.tap === undefined ? {} : { tap: intent.tap }),
    ptsPath: console.ptsPath,
    startPaused: paused,
    saveDirectory: saved.directory,
    ...(restore ? { restorePath: saved.published, ...restoreFormIn(world) } : {}),
    mark: markOf(host, record),
  }
}
