/** Facts about a host on which nothing is to be done. */
import { judgeHost } from '../src/core/doctor/judge-host.ts'
import { chooseMonitor } from '../src/core/monitor/choose-monitor.ts'
import { given } from '../src/lib/given.ts'
import { DAY_MS } from '../src/lib/time-units.ts'
import type { Finding } from '../src/core/doctor/finding.ts'
import type { Fact, HostFacts, PoolFault, PoolLook } from '../src/core/doctor/host-facts.ts'
import type { VmId } from '../src/core/ids.ts'
import type { MonitorQuestion } from '../src/core/monitor/choose-monitor.ts'

export const NOW = 100 * DAY_MS

export const is = <T>(value: T): { readonly known: true; readonly value: T } => ({ known: true, value })
export const unknown = (because = 'it cannot be read'): Fact<never> => ({ known: false, because })

export const offers = (changes: Partial<MonitorQuestion> = {}) =>
  chooseMonitor({
    kind: 'auto',
    accelerator: 'auto',
    isExecutable: { qemu: true, firecracker: true },
    programs: { qemu: '/usr/bin/qemu-system-x86_64', firecracker: '/usr/bin/firecracker' },
    kvm: { opens: true, runs: true, instructionsPerSecond: 1e9 },
    ...changes,
  })

export const certificate = {
  name: 'server',
  path: '/s.crt',
  isAuthority: false,
  notBeforeMs: 0,
  notAfterMs: NOW + 400 * DAY_MS,
}
export const pool = { directory: '/pool', poolId: 'pool-1', reflink: true, availableMib: 9999 }
export const records = { schemaVersion: 9, schemaVersionMax: 9, poolId: 'pool-1' }
export const lists = [{ issuer: 'CN=one', revoked: 2, nextUpdateMs: NOW + DAY_MS }]
export const revocation = { listener: 'controller', path: '/revoked.pem', lists: is(lists), withoutList: [] }
export const listener = { listener: 'controller', table: 'controller', address: '::', boundAt: is('::') }
export const names =
  'tun nf_tables nft_fib_inet nft_connlimit nf_conntrack_netlink sch_ingress cls_bpf sch_tbf act_mirred ifb'

export const daemon = { state: 'running', startsAtBoot: true } as const

export const well: HostFacts = {
  nowMs: NOW,
  configPath: '/etc/vmhostd/config.toml',
  configuration: is('used'),
  hasConfigFile: true,
  localImages: is('/srv/images'),
  kernel: '6.12.48+deb13-amd64',
  systemd: is('257.8-1'),
  modules: is(new Set(names.split(' '))),
  forwarding: { ipv4: true, ipv6: true },
  advertisedRoutes: [],
  linkDownIgnored: { ipv4: false, ipv6: false },
  shared: {
    connections: { max: 262_144, perGuest: 16_384 },
    fragments: { ipv4: { bytes: 2 ** 27, seconds: 10 }, ipv6: { bytes: 2 ** 27, seconds: 10 } },
  },
  firewall: is('taken'),
  forwardDrops: is([]),
  controllers: is(['cpuset', 'cpu', 'io', 'memory', 'pids']),
  monitors: offers(),
  kvm: { isFast: true, because: 'KVM opens' },
  monitorVersions: { qemu: is('10.0.13'), firecracker: is('1.16.1') },
  pool: is({ ...pool, availableMib: 50_000 }),
  room: [
    { what: 'state', directory: '/var/lib/vmhostd', availableMib: is(5000) },
    { what: 'run', directory: '/run/vmhostd', availableMib: is(500) },
  ],
  memory: is({ totalMib: 8000, reserveMib: 1024 }),
  diskReserveMib: 1024,
  listeners: [listener],
  sshKey: is('fits'),
  readableKeys: is([]),
  tlsFiles: [{ listener: 'controller', files: is('fit') }],
  node: is('host-1'),
  certificates: [certificate],
  records: is(records),
  unrecorded: is({ ids: [], isMore: false }),
  revocations: [revocation],
  clockIsSet: is(true),
  descriptorStore: is({ available: true }),
  daemon: is(daemon),
}

export const badOf = (changes: Partial<HostFacts>): readonly Finding[] =>
  judgeHost({ ...well, ...changes }).filter(({ level }) => level !== 'ok')

export const idsOf = (name: string, count: number): readonly VmId[] =>
  Array.from({ length: count }, (_, index) => `${name}-${index + 1}` as VmId)

export const poolWith = (fault?: PoolFault): PoolLook => ({
  known: false,
  directory: '/pool',
  because: 'it cannot be read',
  ...given({ fault }),
})
