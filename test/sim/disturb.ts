import { isLiveMonitor } from '../../src/core/world/world.ts'
import { pick } from './random.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { FakeHost } from '../fakes/fake-host.ts'

/** Does one thing to a VM's objects behind the daemon's back. */
export function disturb(host: FakeHost, { id, host: { device } }: VmRecord, random: () => number): void {
  pick(random, [
    () => endGuest(host, id, random() < 0.5 ? 0 : 1),
    (): void => {
      if (host.fakeUnits.stateOf(id).kind !== 'active') return
      host.monitorOf(id).become(id, { kind: 'broken', status: 'internal-error' })
    },
    (): void => {
      const monitor = host.monitorOf(id).stateOf(id)
      if (!isLiveMonitor(monitor)) return
      host.monitorOf(id).become(id, { kind: 'stalled', status: 'io-error', disk: monitor.disk })
    },
    (): void => void host.taps.devices.delete(device),
    (): void => host.firewall.flush(),
  ])()
}

/** Lets the guest end by itself, and its monitor with this status. */
export function endGuest(host: FakeHost, id: VmId, status: number): void {
  host.fakeUnits.exit(id, status)
  host.monitorOf(id).ended(id)
}
