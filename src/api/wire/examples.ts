/** Examples for the reference. A test checks each against its schema. */

const rootfs = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
const kernel = '60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752'
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
  ssh_authorized_keys: [
    'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2YbSXk0PlsXYbqLwH2uVrkZ6ptuQyPIUJxQnZWLk3A ops@example.net',
  ],
}

export const exampleVm = {
  id: 'web-1',
  desired: {
    power: 'running',
    compute,
    disk,
    image: { rootfs_sha256: rootfs, kernel_sha256: kernel },
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
  revision: 9,
  created_at: '2030-01-01T12:00:00.000Z',
  updated_at: '2030-01-01T12:00:03.204Z',
}
