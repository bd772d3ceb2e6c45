/** Examples for the reference. A test checks each against its schema. */

/** A number of the counter of events and revisions: it begins with the microseconds at which the records were made. */
export const exampleNumber = (count: number): number => Date.UTC(2030, 0, 1) * 1000 + count

const rootfs = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
const kernel = '60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752'
export const exampleSshKey =
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2YbSXk0PlsXYbqLwH2uVrkZ6ptuQyPIUJxQnZWLk3A ops@example.net'
const compute = { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 }
const disk = { size_mib: 2048 }
const labels = { env: 'prod', tier: 'web' }

export const exampleCreateVm = {
  power: 'running',
  compute,
  disk,
  image: {
    rootfs: { url: 'https://images.example.net/root.img?signature=…', sha256: rootfs },
    kernel: { url: 'https://images.example.net/vmlinux?signature=…', sha256: kernel },
  },
  network: { ipv4_address: '192.0.2.10', ipv6_address: '2001:db8::10' },
  labels,
  user_data: '#cloud-config\nhostname: web-1\n',
  ssh_authorized_keys: [exampleSshKey],
}

export const exampleVm = {
  id: 'web-1',
  monitor: 'qemu',
  desired: {
    power: 'running',
    compute,
    disk,
    image: { rootfs: { sha256: rootfs }, kernel: { sha256: kernel } },
    network: { mac_address: '02:76:00:09:27:c0', ipv4_address: '192.0.2.10', ipv6_address: '2001:db8::10' },
  },
  observed: {
    state: 'running',
    state_since: '2030-01-01T12:00:03.204Z',
    compute,
    disk: { size_mib: 2048, guest_size_mib: 2048 },
    started_at: '2030-01-01T12:00:03.121Z',
  },
  generations: { desired: 1, observed: 1 },
  labels,
  protected: false,
  revision: exampleNumber(9),
  created_at: '2030-01-01T12:00:00.000Z',
  updated_at: '2030-01-01T12:00:03.204Z',
}

const partUrl = (number: number): string =>
  `https://bucket.example.net/nightly-1.img.zst?partNumber=${number}&uploadId=…&X-Amz-Signature=…`
const completeUrl = 'https://bucket.example.net/nightly-1.img.zst?uploadId=…&X-Amz-Signature=…'
const headUrl = 'https://bucket.example.net/nightly-1.img.zst?X-Amz-Signature=…'

export const exampleStartSnapshot = {
  vm_id: 'web-1',
  upload: {
    part_size_mib: 64,
    part_urls: [partUrl(1), partUrl(2)],
    complete_url: completeUrl,
    head_url: headUrl,
  },
}

export const exampleSnapshotUrls = { first_part: 3, part_urls: [partUrl(3), partUrl(4)] }

export const exampleCompleteSnapshot = { complete_url: completeUrl, head_url: headUrl }

export const exampleSnapshot = {
  id: 'nightly-1',
  vm_id: 'web-1',
  status: 'uploading',
  progress: { phase: 'packing', done_mib: 310, total_mib: 2048, percent: 15 },
  needs_urls: true,
  lacking_urls: { parts: [3], complete: false },
  parts: { part_size_mib: 64, packed: 3, sent: 2 },
  size_mib: 2048,
  staged_mib: 192,
  consistency: 'file_system',
  captured_at: '2030-01-01T12:00:00.180Z',
  paused_ms: 12,
  last_activity_at: '2030-01-01T12:00:09.311Z',
  revision: exampleNumber(31),
  created_at: '2030-01-01T12:00:00.000Z',
  updated_at: '2030-01-01T12:00:09.311Z',
}

export const exampleSync = {
  host: {
    id: 'host-1',
    boot_id: '5f0c3b6e-8a52-4d3c-9b1f-0d7c2f3a1e44',
    ssh_public_key: 'ssh-ed25519 AAAAC3Nza… vmhostd@host-1',
    version: '1.2.3',
    monitors: [
      {
        kind: 'qemu',
        offered: true,
        default: false,
        program: 'qemu-system-x86_64',
        version: '10.0.2',
        accelerator: 'kvm',
        because: 'KVM runs a guest at 2500.0 million instructions per second',
      },
      {
        kind: 'firecracker',
        offered: true,
        default: true,
        program: 'firecracker',
        version: '1.16.1',
        accelerator: 'kvm',
        because: 'KVM runs a guest at 2500.0 million instructions per second',
      },
    ],
    kernel: '6.12.41-cloud-amd64',
    architecture: 'x86_64',
    clock: '2030-01-01T12:00:00.000Z',
    maintenance: { state: 'schedulable', observed_state: 'schedulable' },
    certificates: [
      { name: 'authority', not_after: '2039-12-30T00:00:00.000Z' },
      { name: 'controller', not_after: '2032-04-05T00:00:00.000Z' },
      { name: 'server', not_after: '2032-04-05T00:00:00.000Z' },
    ],
    clients: [
      {
        name: 'vmhost-controller',
        role: 'controller',
        serial: '4F1B2C',
        not_after: '2032-04-05T00:00:00.000Z',
        seen_at: '2030-01-01T00:00:00.000Z',
      },
    ],
  },
  capacity: {
    cpu: { total_millicores: 16_000, committed_millicores: 1500 },
    memory: {
      total_mib: 64_000,
      available_mib: 60_112,
      committed_mib: 770,
      committed_guests_mib: 512,
      committed_monitors_mib: 258,
      allocatable_mib: 62_976,
      sleep_ratio: 1,
      held_mib: 770,
      waiting_vms: 0,
      resident_mib: 214,
      not_resident_mib: 556,
    },
    disks: [
      {
        pool: '0b6f9a52-6f0e-4c8a-8a36-1f1d6c9d2f10',
        total_mib: 953_344,
        available_mib: 941_020,
        committed_mib: 19_456,
        committed_disks_mib: 2048,
        committed_saved_mib: 0,
        committed_images_mib: 1024,
        committed_staging_mib: 16_384,
        allocatable_mib: 952_320,
      },
    ],
  },
  vms: [{ id: 'web-1', generations: { desired: 1, observed: 1 }, state: 'running', resident_mib: 214 }],
  snapshots: [
    {
      id: 'nightly-1',
      vm_id: 'web-1',
      status: 'uploading',
      percent: 15,
      needs_urls: false,
      last_activity_at: '2030-01-01T12:00:00.000Z',
    },
  ],
  staging: { packed_mib: 1128, sent_mib: 1000, clones_mib_max: 2048, quota_mib: 16_384 },
  images: [
    {
      sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
      size_mib: 1024,
      use_count: 1,
      last_used_at: '2030-01-01T12:00:00.000Z',
    },
  ],
  consoles: {
    protected: 1,
    running_units: 1,
    descriptor_store_available: true,
    unprotected: [],
    places_total: 1750,
    places_free: 1749,
    places_held: 1,
    places_held_max: 1575,
  },
}

/** The offer of that VM to another host. */
export const exampleManifest = {
  migration_id: 'move-web-1',
  vm_id: exampleVm.id,
  stage: 'offered',
  mode: 'live',
  power: 'running',
  monitor: { program: 'qemu-system-x86_64', version: '10.0.2', accelerator: 'kvm', form: 'mapped' },
  processor: { vendor: 'GenuineIntel', features: ['fpu', 'avx2'] },
  compute,
  disk,
  network: exampleVm.desired.network,
  expires_at: '2030-01-01T13:00:00.000Z',
  vm: {
    desired: exampleVm.desired,
    labels: exampleVm.labels,
    protected: exampleVm.protected,
    created_at: exampleVm.created_at,
    request: '{"power":"running"}',
    ssh_authorized_keys: [],
    monitor: 'qemu',
    daemon_ssh_key:
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2YbSXk0PlsXYbqLwH2uVrkZ6ptuQyPIUJxQnZWLk3A vmhostd@host-1',
    exit_streak: 0,
  },
}
