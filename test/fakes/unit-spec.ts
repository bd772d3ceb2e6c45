import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'

/** A small unit, for tests to vary. */
export const unitSpecOf = (id: VmId, changes: Partial<UnitSpec> = {}): UnitSpec => ({
  description: `VM ${id}`,
  command: ['/usr/bin/sleep', 'infinity'],
  userId: 700_001 as UserId,
  supplementaryGroups: [],
  ttyPath: '/dev/pts/3',
  runtimeDirectory: `vmhostd/vm/${id}`,
  runtimeFiles: [],
  cpuQuotaPercent: 150,
  memoryMaxBytes: 256 * 1024 * 1024,
  tasksMax: 16,
  openFilesMax: 64,
  devices: [],
  readOnlyPaths: [],
  readWritePaths: [],
  mark: { storeId: 'test-store', createdAtMs: 1000 },
  ...changes,
})

/** The unit of a machine that a fake monitor runs with this command. */
export const unitSpecOn = (machine: MachineSpec, command: UnitSpec['command']): UnitSpec => ({
  description: `VM ${machine.id}`,
  command,
  userId: machine.userId,
  supplementaryGroups: [],
  ttyPath: machine.ptsPath,
  runtimeDirectory: `vmhostd/vm/${machine.id}`,
  runtimeFiles: [],
  cpuQuotaPercent: machine.compute.cpuMillicores / 10,
  memoryMaxBytes: machine.compute.memoryMib * 1024 * 1024,
  tasksMax: 64,
  openFilesMax: 64,
  devices: [],
  readOnlyPaths: [
    machine.kernelPath,
    machine.seedPath,
    ...(machine.restorePath === undefined ? [] : [machine.restorePath]),
  ],
  readWritePaths: [machine.diskPath, machine.saveDirectory],
  mark: machine.mark,
})
