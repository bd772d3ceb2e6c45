import type { VmId } from '../../src/core/ids.ts'
import { FakeMonitor } from './fake-monitor.ts'
import { SavedFiles } from './saved-files.ts'

/** Monitors in memory that do what Firecracker does where it differs from QEMU. */
export class LikeFirecracker extends FakeMonitor {
  override readonly restoresAlone = false

  constructor(files = new SavedFiles()) {
    super({ startPaused: false }, { program: 'fake-firecracker', files })
  }

  override async diskCounters(id: VmId): Promise<undefined> {
    await super.diskCounters(id)
  }
}
