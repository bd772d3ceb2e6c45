import { HostInspector } from '../../../src/owners/host-inspector.ts'
import { HostReport } from '../../../src/owners/host-report.ts'
import { silentLog } from '../../../src/log/log.ts'
import type { Store } from '../../../src/store/store.ts'
import type { FakeFigures } from '../../fakes/fake-figures.ts'
import type { FakeHost } from '../../fakes/fake-host.ts'

/** The report of a host in memory, as the daemon makes it of a real one. */
export function reportOn(host: FakeHost, figures: FakeFigures, store: Store): HostReport {
  const policy = { memoryReserveMib: 1024, diskReserveMib: 1024, diskOvercommit: 1 }
  const { clock, units, consoles, staging } = host
  const inspector = new HostInspector({ figures, clock, policy, log: silentLog, onChange: () => {} })
  return new HostReport({
    names: { id: 'host-1', bootId: host.bootId, version: '1.2.3', sshPublicKey: host.sshPublicKey },
    ...{ inspector, figures, units, consoles, staging, store, clock },
    stagingQuotaMib: 1024,
    isDescriptorStoreAvailable: async () => host.descriptorStoreAvailable,
  })
}
