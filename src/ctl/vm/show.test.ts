import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderVm } from './show.ts'
import type { Vm } from '../../client/api-client.ts'

const SHA = 'a'.repeat(64)
const compute = { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 600 }

const vm: Vm = {
  id: 'web-1',
  monitor: 'qemu',
  desired: {
    power: 'running',
    compute,
    disk: { size_mib: 4096, iops_max: 500, mib_per_second_max: 100 },
    image: { rootfs: { sha256: SHA }, kernel: { sha256: SHA } },
    network: {
      mac_address: '02:00:5e:10:00:01',
      ipv4_address: '192.0.2.10',
      bandwidth: { receive_mbit_per_second: 200 },
      firewall: {
        inbound: [{ protocol: 'tcp', ports: ['22', '80'], sources: ['192.0.2.0/24'] }, { protocol: 'icmp' }],
        outbound: [{ action: 'deny', protocol: 'tcp', ports: ['25'] }],
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
  monitor     qemu
  generation  1 of 2
  compute     1.5 CPU, 512 MiB, sleeps after 10 min without traffic; runs with 1.5 CPU, 256 MiB
  disk        4 GiB, has 2 GiB so far, the guest sees 2 GiB until its next start, at most 500 operations a second, at most 100 MiB/s
  network     192.0.2.10, 02:00:5e:10:00:01
  bandwidth   to the guest 200 Mbit/s, from the guest not limited
  inbound     tcp 22,80 from 192.0.2.0/24; icmp from anywhere
  outbound    deny tcp 25 to anywhere
  labels      env=prod tier=web
  protected   against deletion
  image       rootfs aaaaaaaaaaaa…, kernel aaaaaaaaaaaa…
  created     2029-12-31T00:00:00.000Z, 1 d ago
`,
  )
})

const {
  partial_faults: _faults,
  fault: _fault,
  error: _error,
  waiting_for: _waiting,
  ...healthy
} = vm.observed

test('a VM that sleeps is shown with what is saved, what woke it last, and that it flaps', () => {
  const asleep: Vm = {
    ...vm,
    observed: {
      ...healthy,
      state: 'sleeping',
      saved_state: { saved_at: '2030-01-01T00:00:10.000Z', size_mib: 84, memory_mib: 512 },
      last_traffic_at: '2029-12-31T23:50:00.000Z',
      last_wake: {
        at: '2029-12-31T23:49:58.000Z',
        reason: 'traffic',
        duration_ms: 180,
        held_packets: 3,
        dropped_packets: 1,
      },
      flapping: { short_sleeps: 5, sleep_after_idle_seconds: 40 },
    },
  }
  const text = renderVm(asleep, Date.UTC(2030, 0, 1, 0, 1), (word) => word)
  assert.match(text, /^ {2}state +sleeping for 1 min$/m)
  assert.match(text, /^ {2}saved +50 s ago, 84 MiB for 512 MiB of memory$/m)
  assert.match(text, /^ {2}last traffic +11 min ago$/m)
  assert.match(
    text,
    /^ {2}last wake +11 min 2 s ago, by traffic, in 180 ms, 3 packets held for it, 1 dropped$/m,
  )
  assert.match(text, /^ {2}flapping +5 short sleeps in a row: it sleeps after 40 s now$/m)
})

test('a VM that does not come is shown without a next attempt, because nothing comes of one', () => {
  const fault = {
    code: 'migration_refused',
    step: 'arrival.pull',
    generation: 1,
    attempt: 1,
    since: '2030-01-01T00:00:00.000Z',
    next_attempt_at: '2030-01-01T00:05:00.000Z',
  } as const
  const observed: Vm['observed'] = { ...healthy, state: 'failed', error: 'arrival.pull: web-1: it', fault }
  const text = renderVm({ ...vm, observed }, Date.UTC(2030, 0, 1, 0, 1), (shown) => shown)
  assert.match(text, /^ {2}error +arrival\.pull: web-1: it \(migration_refused\)$/m)
})

test('words that a newer daemon adds are shown as they are', () => {
  const word = 'of_a_newer_daemon' as never
  const observed: Vm['observed'] = {
    ...healthy,
    last_stop: { at: '2030-01-01T00:00:30.000Z', how: word, reason: 'request' },
    last_wake: {
      at: '2030-01-01T00:00:50.000Z',
      reason: word,
      duration_ms: 180,
      held_packets: 0,
      dropped_packets: 0,
    },
  }
  const text = renderVm({ ...vm, observed }, Date.UTC(2030, 0, 1, 0, 1), (shown) => shown)
  assert.match(text, /^ {2}last stop +30 s ago, of_a_newer_daemon$/m)
  assert.match(text, /^ {2}last wake +10 s ago, of_a_newer_daemon, in 180 ms$/m)
})

test('a VM whose memory stays promised is shown with that', () => {
  const guaranteed = { ...compute, wake: 'guaranteed' as const }
  const text = renderVm({ ...vm, desired: { ...vm.desired, compute: guaranteed } }, 0, (word) => word)
  assert.match(text, /without traffic, keeps its memory promised while it sleeps;/)
})

test('a VM that nothing could wake is shown as one that never sleeps', () => {
  const { network: _network, ...desired } = vm.desired
  const text = renderVm({ ...vm, desired }, 0, (word) => word)
  assert.match(text, /512 MiB, never sleeps, since without an address nothing could wake it;/)
})

test('a VM that moves is shown with how far it is, where it goes, and that it came', () => {
  const shownWith = (migration: NonNullable<Vm['observed']['migration']>, offer = true): string => {
    const node = {
      migration_id: 'move-7',
      node: 'node-2',
      mode: 'live',
      expires_at: '2030-01-01T04:00:00.000Z',
    } as const
    const desired = offer ? { ...vm.desired, migration: node } : vm.desired
    const text = renderVm(
      { ...vm, desired, observed: { ...healthy, migration } },
      Date.UTC(2030, 0, 1, 0, 1),
      (word) => word,
    )
    return /^ {2}leaves +(.*)$/m.exec(text)?.[1] ?? ''
  }
  const at = { migration_id: 'move-7', stage_since: '2030-01-01T00:00:20.000Z' }
  assert.equal(
    shownWith({ ...at, stage: 'copying' }),
    'copying to node-2 by move-7 for 40 s, until 2030-01-01T04:00:00.000Z',
  )
  assert.equal(shownWith({ ...at, stage: 'released' }), 'it has left to node-2 by move-7, 40 s ago')
  assert.equal(
    shownWith({ ...at, stage: 'withdrawn', withdrawn_because: 'expired' }, false),
    'no: move-7 was withdrawn 40 s ago (expired)',
  )
  const arrival = {
    migration_id: 'move-7',
    stage: 'pulling',
    round: 1,
    progress: { round: 2, copied_bytes: 3 * 1024 * 1024, total_bytes: 2 * 1024 ** 3 },
  } as const
  const text = renderVm({ ...vm, observed: { ...healthy, arrival } }, 0, (word) => word)
  assert.match(text, /^ {2}came +by move-7: pulling, round 2: 3 MiB of 2 GiB$/m)
})

test('a VM whose rebuild is not done yet says so, and one whose rebuild is done does not', () => {
  const image = { ...vm.desired.image, rebuild: 2 }
  const diskLine = (rebuild: number): string | undefined =>
    renderVm(
      { ...vm, desired: { ...vm.desired, image }, observed: { ...vm.observed, rebuild } },
      Date.UTC(2030, 0, 1),
      (word) => word,
    )
      .split('\n')
      .find((line) => line.startsWith('  disk '))
  assert.match(diskLine(1) ?? '', /4 GiB, to be made again from its image, has/)
  assert.doesNotMatch(diskLine(2) ?? '', /again/)
})
