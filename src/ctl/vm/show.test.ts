import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderVm } from './show.ts'
import type { Vm } from '../../client/api-client.ts'

const SHA = 'a'.repeat(64)
const compute = { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 600 }

const vm: Vm = {
  id: 'web-1',
  desired: {
    power: 'running',
    compute,
    disk: { size_mib: 4096, iops_max: 500, mib_per_second_max: 100 },
    image: { rootfs_sha256: SHA, kernel_sha256: SHA },
    network: {
      mac_address: '02:00:5e:10:00:01',
      ipv4_address: '192.0.2.10',
      bandwidth: { receive_mbit_per_second: 200 },
      firewall: {
        inbound: [{ protocol: 'tcp', ports: ['22', '80'], sources: ['192.0.2.0/24'] }, { protocol: 'icmp' }],
      },
    },
  },
  observed: {
    state: 'failed',
    state_since: '2030-01-01T00:00:00.000Z',
    waiting_for: 'the monitor to answer',
    error: 'network.ensure-tap: making tap: busy',
    fault: {
      code: 'tap_name_taken',
      step: 'network.ensure-tap',
      generation: 2,
      since: '2030-01-01T00:00:00.000Z',
      attempt: 3,
      next_attempt_at: '2030-01-01T00:01:30.000Z',
    },
    partial_faults: [{ code: 'firewall_failed', step: 'network.inspect', detail: 'nft: no such table' }],
    compute: { ...compute, memory_mib: 256 },
    disk: { size_mib: 2048, guest_size_mib: 2048 },
  },
  generations: { desired: 2, observed: 1 },
  labels: { env: 'prod', tier: 'web' },
  protected: true,
  revision: 9,
  created_at: '2029-12-31T00:00:00.000Z',
  updated_at: '2030-01-01T00:00:00.000Z',
}

test('a VM is shown with everything that is not as it should be', () => {
  const text = renderVm(vm, Date.UTC(2030, 0, 1, 0, 1), (word) => word)
  assert.equal(
    text,
    `web-1
  state       failed for 1 min
  waits for   the monitor to answer
  error       network.ensure-tap: making tap: busy (tap_name_taken, attempt 3, next in 30 s)
  also        network.inspect: nft: no such table (firewall_failed)
  desired     running
  generation  1 of 2
  compute     1.5 CPU, 512 MiB, sleeps after 10 min without traffic; runs with 1.5 CPU, 256 MiB
  disk        4 GiB, has 2 GiB so far, the guest sees 2 GiB until its next start, at most 500 operations a second, at most 100 MiB/s
  network     192.0.2.10, 02:00:5e:10:00:01
  bandwidth   to the guest 200 Mbit/s, from the guest not limited
  inbound     tcp 22,80 from 192.0.2.0/24; icmp from anywhere
  labels      env=prod tier=web
  protected   against deletion
  image       rootfs aaaaaaaaaaaa…, kernel aaaaaaaaaaaa…
  created     2029-12-31T00:00:00.000Z, 1 d ago
`,
  )
})
