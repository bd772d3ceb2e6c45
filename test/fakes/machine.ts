import type { MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import type { RestoredGuest } from '../../src/ports/monitor.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'

/** A small machine without network, for tests to vary. */
export const machineOf = (id: VmId, changes: Partial<MachineSpec> = {}): MachineSpec => ({
  id,
  userId: 200_001 as UserId,
  compute: { cpuMillicores: 1000, memoryMib: 128, sleepAfterIdleSeconds: 0 },
  kernelPath: '/pool/images/kernel',
  diskPath: `/pool/disks/${id}/disk.raw`,
  diskLimits: {},
  seedPath: `/pool/disks/${id}/seed.iso`,
  guestMetadata: {
    latest: {
      'meta-data': { 'instance-id': `${id}-1000`, 'local-hostname': id, 'public-keys': {} },
      'user-data': '#cloud-config\n',
      'vendor-data': '',
    },
  },
  kernelArguments: '',
  ptsPath: '/dev/pts/3',
  startPaused: false,
  saveDirectory: `/pool/disks/${id}/save`,
  mark: { storeId: 'test-store', createdAtMs: 1000 },
  ...changes,
})

/** The same machine, restored from a file. */
export function restoredOf(id: VmId, path: string): RestoredGuest {
  const { userId, compute } = machineOf(id)
  return { id, userId, path, memoryMib: compute.memoryMib }
}
