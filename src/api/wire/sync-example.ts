/** The example for the reference. A test checks it against its schema. */
export const exampleSync = {
  host: {
    id: 'host-1',
    boot_id: '5f0c3b6e-8a52-4d3c-9b1f-0d7c2f3a1e44',
    ssh_public_key: 'ssh-ed25519 AAAAC3Nza… vmhostd@host-1',
    version: '1.2.3',
    monitor: { program: 'qemu-system-x86_64', version: '10.0.2', accelerator: 'kvm' },
    kernel: '6.12.41-cloud-amd64',
    architecture: 'x86_64',
    clock: '2030-01-01T12:00:00.000Z',
    certificates: [
      { name: 'authority', not_after: '2039-12-30T00:00:00.000Z' },
      { name: 'controller', not_after: '2032-04-05T00:00:00.000Z' },
      { name: 'server', not_after: '2032-04-05T00:00:00.000Z' },
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
  vms: [{ id: 'web-1', generations: { desired: 1, observed: 1 }, state: 'running' }],
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
      in_use: true,
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
