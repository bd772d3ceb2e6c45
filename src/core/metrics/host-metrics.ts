import { MAINTENANCE_STATES } from '../maintenance/maintenance.ts'
import { SNAPSHOT_STAGES } from '../snapshots/record.ts'
import { CERTIFICATES_MAX, HOST_FAULT_CODES, MIGRATION_STAGES } from './label-values.ts'
import { OBSERVED_STATES } from '../vm/record.ts'
import { gauge, onHost } from './metric.ts'

const MIGRATIONS_MAX = Object.values(MIGRATION_STAGES).flat().length

/** Metrics of the host as a whole. */
export const hostMetrics = {
  maintenance: gauge(
    'vmhostd_host_maintenance',
    'The state that is desired of the host: 1 for the present one, 0 for the others.',
    { labels: ['state'], bound: onHost(MAINTENANCE_STATES.length) },
  ),
  hostFault: gauge(
    'vmhostd_host_fault',
    'Whether the host itself has this fault, which `host.faults` in `GET /v1/sync` explains: 1 if it has, 0 if it has not.',
    { labels: ['code'], bound: onHost(HOST_FAULT_CODES.length) },
  ),
  hostCpus: gauge('vmhostd_host_cpus', 'CPUs of the host that are online.'),
  hostMemory: gauge('vmhostd_host_memory_size_bytes', 'Memory of the host.'),
  hostMemoryAvailable: gauge(
    'vmhostd_host_memory_available_bytes',
    'Memory of the host that programs can still take.',
  ),
  recordsAvailable: gauge(
    'vmhostd_records_available_bytes',
    'Room in the file system of the records (`state_directory`), without what is reserved for root.',
  ),
  poolSize: gauge('vmhostd_pool_size_bytes', 'Size of the file system of the storage pool.'),
  poolAvailable: gauge(
    'vmhostd_pool_available_bytes',
    'Room in the file system of the storage pool, without what is reserved for root.',
  ),
  memoryAllocatable: gauge(
    'vmhostd_memory_allocatable_bytes',
    'Memory that VMs and their monitors may be promised together.',
  ),
  memoryCommitted: gauge('vmhostd_memory_committed_bytes', 'Memory that is promised, by part.', {
    labels: ['part'],
    bound: onHost(2),
  }),
  memoryQueue: gauge('vmhostd_memory_queue_vms', 'VMs that wait to have memory back that they lent.'),
  diskAllocatable: gauge(
    'vmhostd_disk_allocatable_bytes',
    'Room in the storage pool that may be promised in all.',
  ),
  diskCommitted: gauge(
    'vmhostd_disk_committed_bytes',
    'Room in the storage pool that is promised, by part.',
    { labels: ['part'], bound: onHost(4) },
  ),
  cpusCommitted: gauge('vmhostd_cpus_committed', 'CPU that all VMs on record may use together, in CPUs.'),
  descriptorStore: gauge(
    'vmhostd_descriptor_store_available',
    'Whether the consoles of guests survive a stop of the daemon: 1 if they do, 0 if they do not.',
  ),
  consolePlaces: gauge(
    'vmhostd_console_places',
    "Places for consoles in systemd's descriptor store of the daemon.",
  ),
  consolePlacesFree: gauge(
    'vmhostd_console_places_free',
    "Places in systemd's descriptor store that no console takes.",
  ),
  consolesUnprotected: gauge(
    'vmhostd_consoles_unprotected',
    'Running VMs whose console would not survive a stop of the daemon.',
  ),
  stagingPacked: gauge('vmhostd_staging_packed_bytes', 'Compressed parts of snapshots in the pool.'),
  stagingSent: gauge(
    'vmhostd_staging_sent_bytes',
    'Compressed parts of snapshots in the pool that an object store has.',
  ),
  stagingClones: gauge(
    'vmhostd_staging_clone_bytes',
    'The most that captured disks can take in the pool until they are packed.',
  ),
  stagingQuota: gauge('vmhostd_staging_quota_bytes', 'Room for compressed parts of snapshots.'),
  snapshots: gauge('vmhostd_snapshots', 'Snapshots on record, by stage.', {
    labels: ['stage'],
    bound: onHost(SNAPSHOT_STAGES.length),
  }),
  migrations: gauge(
    'vmhostd_migrations',
    'VMs on record whose newest migration from this host (departure) or to it (arrival) is in this stage.',
    { labels: ['direction', 'stage'], bound: onHost(MIGRATIONS_MAX) },
  ),
  vms: gauge('vmhostd_vms', 'VMs on record, by observed state.', {
    labels: ['state'],
    bound: onHost(OBSERVED_STATES.length),
  }),
  certificateEnd: gauge(
    'vmhostd_certificate_not_after_timestamp_seconds',
    'When a certificate that this host depends on expires.',
    { labels: ['certificate'], bound: onHost(CERTIFICATES_MAX) },
  ),
  revocationDue: gauge(
    'vmhostd_revocation_list_next_update_timestamp_seconds',
    'When the first revocation list of a listener is due to be replaced. Absent without a list that says so.',
    { labels: ['listener'], bound: onHost(2) },
  ),
} as const
