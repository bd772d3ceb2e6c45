import { HostInspector } from '../../../src/owners/host-inspector.ts'
import { HostReport } from '../../../src/owners/host-report.ts'
import { silentLog } from '../../../src/log/log.ts'
import type { Store } from '../../../src/store/store.ts'
import type { FakeFigures } from '../../fakes/fake-figures.ts'
import type { FakeHost } from '../../fakes/fake-host.ts'

/** The report of a host in memory, as the daemon makes it of a real one. */
export function reportOn(host: FakeHost, figures: FakeFigures, store: Store): HostReport {
  const policy = { memoryReserveMib: 1024, diskReserveMib: 1024, diskOvercommit: 1, stagingQuotaMib: 1024 }
  const { clock, units, consoles, staging } = host
  const monitorMib = (guestMib: number): number => host.monitor.memoryMib(guestMib)
  const onChange = (): void => {}
  const inspector = new HostInspector({
    ...{ figures, consoles, monitorMib, vcpusMax: () => 32, clock, policy, onChange },
    log: silentLog,
  })
  return new HostReport({
    names: { id: 'host-1', bootId: host.bootId, version: '1.2.3', sshPublicKey: host.sshPublicKey },
    ...{ inspector, figures, units, consoles, staging, store, clock },
    isDescriptorStoreAvailable: async () => host.descriptorStoreAvailable,
  })
}
