import { errorToWire } from './vm-to-wire.ts'
import type { HostView } from '../../owners/host-report.ts'
import type { VmSummary } from '../../store/vm-summaries.ts'
import type { SyncWire } from './sync.ts'

const MILLICORES_A_CPU = 1000

/** The only way from what is known of the host to a response. */
export function syncToWire(view: HostView): SyncWire {
  const { host, images, consoles } = view
  const { kernel, architecture, monitor } = host.machine
  return {
    host: {
      id: host.id,
      boot_id: host.bootId,
      version: host.version,
      ssh_public_key: host.sshPublicKey,
      monitor: { ...monitor },
      kernel,
      architecture,
      clock: new Date(host.nowMs).toISOString(),
    },
    capacity: capacityToWire(view),
    vms: view.vms.map(summaryToWire),
    snapshots: [],
    images: images.map(({ sha256, sizeMib, inUse }) => ({ sha256, size_mib: sizeMib, in_use: inUse })),
    consoles: {
      protected: consoles.protected,
      running_units: consoles.runningUnits,
      descriptor_store_available: consoles.descriptorStoreAvailable,
      unprotected: [...consoles.unprotected],
    },
  }
}

function capacityToWire({ cpus, memory, pool, committed, allocatable }: HostView): SyncWire['capacity'] {
  return {
    cpu: { total_millicores: cpus * MILLICORES_A_CPU, committed_millicores: committed.cpuMillicores },
    memory: {
      total_mib: memory.totalMib,
      available_mib: memory.availableMib,
      committed_mib: committed.memoryMib,
      allocatable_mib: allocatable.memoryMib,
    },
    disks: [
      {
        pool: pool.poolId,
        total_mib: pool.totalMib,
        available_mib: pool.availableMib,
        committed_mib: committed.diskMib,
        allocatable_mib: allocatable.diskMib,
      },
    ],
  }
}

function summaryToWire(summary: VmSummary): SyncWire['vms'][number] {
  const { id, generations, state } = summary
  const error = errorToWire(summary)
  return { id, generations: { ...generations }, state, ...(error === undefined ? {} : { error }) }
}
