import { HostFault } from '../../core/errors.ts'
import { imagesOf } from '../../core/vm/desired.ts'
import type { Disk, DiskLimits } from '../../core/vm/desired.ts'
import type { MachineSpec } from '../../core/unit/machine-spec.ts'
import type { Executor, StepContext } from './executor.ts'

/** Afterwards the unit is active, with the VM's stored console as its terminal. */
export const ensureStarted: Executor<'unit.ensure-started'> = async (step, context) => {
  const { host, record, signal } = context
  const machine = await machineOf(context, step.paused)
  await host.units.ensureStarted(record.id, host.monitor.unitSpec(machine), signal)
}

const diskLimitsOf = ({ sizeMib: _size, ...limits }: Disk): DiskLimits => limits

async function machineOf(
  { host, record, intent, storeId }: StepContext,
  startPaused: boolean,
): Promise<MachineSpec> {
  const { id, desired } = record
  const console = await host.consoles.inspect(id)
  if (console.kind !== 'stored') {
    throw new HostFault(
      'console_unprotected',
      `the console of ${id} is ${console.kind}; the VM is not started without it`,
    )
  }
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
    kernelArguments: desired.image.kernelArguments ?? '',
    ...(intent.tap === undefined ? {} : { tap: intent.tap }),
    ptsPath: console.ptsPath,
    startPaused,
    storeId,
  }
}
