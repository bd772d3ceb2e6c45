import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
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
  systemCalls: [],
  readOnlyPaths: [],
  readWritePaths: [],
  mark: { storeId: 'test-store', createdAtMs: 1000 },
  ...changes,
})
