import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  NOW,
  badOf,
  certificate,
  daemon,
  idsOf,
  is,
  listener,
  lists,
  names,
  offers,
  pool,
  poolWith,
  records,
  revocation,
  unknown,
  well,
} from '../../../test/well-host.ts'
import { given } from '../../lib/given.ts'
import { judgeHost } from './judge-host.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { HostFacts } from './host-facts.ts'

test('a certificate that is not valid now can be renewed, and an authority can only be replaced', () => {
  const remedy = (isAuthority: boolean, changes: Partial<typeof certificate>): string | undefined =>
    badOf({ certificates: [{ ...certificate, isAuthority, ...changes }] })[0]?.remedy
  for (const changes of [
    { notBeforeMs: NOW + 1 },
    { notAfterMs: NOW - DAY_MS },
    { notAfterMs: NOW + DAY_MS },
  ]) {
    assert.match(remedy(true, changes) ?? '', /replace .*"Replace an authority without an outage"/)
    assert.match(remedy(false, changes) ?? '', /renew/)
  }
  assert.match(remedy(false, { notBeforeMs: NOW + 1 }) ?? '', /clock.* vmhostd certificate renew/)
  // The clock may be wrong in either direction. A certificate that is made then is not valid once it is right.
  assert.match(
    remedy(false, { notAfterMs: NOW - DAY_MS }) ?? '',
    /^set the clock .* if it is wrong, or renew/,
  )
})

test('the remedy for files of a listener that do not fit is not set-up alone, which keeps them', () => {
  const [finding] = badOf({ tlsFiles: [{ listener: 'controller', files: unknown() }] })
  assert.match(
    finding?.remedy ?? '',
    /move what is wrong away, a certificate with its key, and run vmhostd setup/,
  )
})

test('a certificate of a node is removed only if its authority is the right one', () => {
  const remedyOf = (fault?: 'authority'): string =>
    badOf({ node: { known: false, because: 'x', ...given({ fault }) } })[0]?.remedy ?? ''
  assert.match(
    remedyOf('authority'),
    /^put the authority that signed it there; only if .* remove it with its key/,
  )
  assert.match(remedyOf(), /^remove it with its key/)
})

test('a host on which nothing is to be done has a finding for each check, and no remedy', () => {
  const findings = judgeHost(well)
  assert.deepEqual(
    findings.filter(({ level, remedy }) => level !== 'ok' || remedy !== undefined),
    [],
  )
  assert.deepEqual(new Set(findings.map(({ check }) => check)).size, findings.length)
})

type Case = readonly [what: string, changes: Partial<HostFacts>, level: 'must' | 'should', check: string]

const cases: readonly Case[] = [
  ['an old kernel', { kernel: '5.15.0-100' }, 'must', 'kernel'],
  ['an old systemd', { systemd: is('252.1') }, 'must', 'systemd'],
  ['no systemd', { systemd: unknown() }, 'must', 'systemd'],
  ['no module for guests', { modules: is(new Set(names.replace('tun ', '').split(' '))) }, 'must', 'modules'],
  [
    'no module for sleep',
    { modules: is(new Set(names.replace('cls_bpf ', '').split(' '))) },
    'should',
    'modules',
  ],
  ['modules that cannot be listed', { modules: unknown() }, 'should', 'modules'],
  ['a controller too few', { controllers: is(['cpu', 'pids']) }, 'must', 'cgroups'],
  ['the old hierarchy', { controllers: unknown() }, 'must', 'cgroups'],
  ['no forwarding', { forwarding: { ipv4: false, ipv6: true } }, 'must', 'forwarding ipv4'],
  [
    'a default route that ends although the kernel forwards',
    { advertisedRoutes: [{ device: 'eth0', acceptRa: 1 }] },
    'should',
    'forwarding ipv6',
  ],
  [
    'routes without a carrier that are skipped',
    { linkDownIgnored: { ipv4: true, ipv6: false } },
    'must',
    'routes to sleeping guests',
  ],
  [
    'a table of connections that one guest fills',
    { shared: { ...well.shared, connections: { max: 32_768, perGuest: 16_384 } } },
    'should',
    'what guests share',
  ],
  [
    'a memory for fragments that one guest fills',
    { shared: { ...well.shared, fragments: { ipv6: { bytes: 2 ** 22, seconds: 60 } } } },
    'should',
    'what guests share',
  ],
  ['rules that the kernel does not take', { firewall: unknown() }, 'must', 'firewall'],
  ['a table that drops what guests send', { forwardDrops: is(['ip filter']) }, 'should', 'other firewalls'],
  [
    'a QEMU that cannot save',
    { monitorVersions: { ...well.monitorVersions, qemu: is('7.2.1') } },
    'should',
    'QEMU',
  ],
  [
    'no QEMU beside Firecracker',
    { monitorVersions: { ...well.monitorVersions, qemu: unknown() } },
    'should',
    'QEMU',
  ],
  [
    'no Firecracker, although it is configured',
    {
      monitors: offers({ kind: 'firecracker' }),
      monitorVersions: { ...well.monitorVersions, firecracker: unknown() },
    },
    'must',
    'Firecracker',
  ],
  ['no KVM', { kvm: { isFast: false, because: 'KVM does not open (ENOENT)' } }, 'should', 'KVM'],
  ['no configuration', { configuration: unknown() }, 'must', 'configuration'],
  ['no local images', { localImages: unknown() }, 'should', 'local images'],
  ['no pool', { pool: poolWith('unmarked') }, 'must', 'pool'],
  ['a full pool', { pool: is({ ...pool, availableMib: 1024 }) }, 'must', 'pool'],
  ['a pool that copies', { pool: is({ ...pool, reflink: false }) }, 'should', 'pool'],
  [
    'a full state directory',
    { room: [{ what: 'state', directory: '/var/lib/vmhostd', availableMib: is(1) }] },
    'must',
    'room state',
  ],
  ['too little memory', { memory: is({ totalMib: 1000, reserveMib: 1024 }) }, 'must', 'memory'],
  [
    'an address of another host',
    { listeners: [{ ...listener, boundAt: unknown() }] },
    'must',
    'listener controller',
  ],
  ['an SSH key that the daemon refuses', { sshKey: unknown() }, 'must', 'SSH key'],
  ['keys that others can read', { readableKeys: is(['/tls/server.key']) }, 'should', 'private keys'],
  ['keys that cannot be looked at', { readableKeys: unknown() }, 'should', 'private keys'],
  [
    'files that do not fit',
    { tlsFiles: [{ listener: 'nodes', files: unknown() }] },
    'must',
    'certificates nodes',
  ],
  ['a node that other hosts do not know', { node: unknown() }, 'should', 'node'],
  [
    'further authorities that cannot be read',
    { extraAuthorities: unknown() },
    'must',
    'certificates object store',
  ],
  [
    'a certificate that has ended',
    { certificates: [{ ...certificate, notAfterMs: NOW - DAY_MS }] },
    'must',
    'certificate server',
  ],
  [
    'a certificate that ends soon',
    { certificates: [{ ...certificate, notAfterMs: NOW + 5 * DAY_MS }] },
    'should',
    'certificate server',
  ],
  [
    'a certificate of the future',
    { certificates: [{ ...certificate, notBeforeMs: NOW + 1 }] },
    'must',
    'certificate server',
  ],
  ['another pool', { pool: is({ ...pool, poolId: 'pool-2' }) }, 'must', 'pool'],
  ['records that cannot be read', { records: unknown() }, 'must', 'records'],
  [
    'records that were removed under the daemon',
    { daemon: is({ ...daemon, displaced: { name: 'vmhostd.db', copy: '/copy.db' } }) },
    'must',
    'records',
  ],
  ['a daemon that is stopped', { daemon: is({ ...daemon, state: 'stopped' }) }, 'should', 'daemon'],
  ['a daemon that fails', { daemon: is({ ...daemon, state: 'failed' }) }, 'must', 'daemon'],
  ['a unit that is disabled', { daemon: is({ ...daemon, startsAtBoot: false }) }, 'should', 'daemon'],
  ['a daemon that cannot be looked at', { daemon: unknown() }, 'should', 'daemon'],
  ['disks without a record', { unrecorded: is({ ids: idsOf('web', 1), isMore: false }) }, 'should', 'disks'],
  ['disks that cannot be looked at', { unrecorded: unknown() }, 'should', 'disks'],
  ['records of a newer build', { records: is({ ...records, schemaVersion: 10 }) }, 'must', 'records'],
  [
    'a revocation list that cannot be used',
    { revocations: [{ ...revocation, lists: unknown() }] },
    'must',
    'revocations controller',
  ],
  [
    'a revocation list that has expired',
    { revocations: [{ ...revocation, lists: is([...lists, { ...lists[0]!, nextUpdateMs: NOW }]) }] },
    'should',
    'revocations controller',
  ],
  [
    'a trusted authority without a list',
    { revocations: [{ ...revocation, withoutList: ['CN=two'] }] },
    'should',
    'revocations controller',
  ],
  ['a clock that nothing sets', { clockIsSet: is(false) }, 'should', 'clock'],
  [
    'a unit that keeps no consoles',
    { descriptorStore: is({ available: false, because: 'x', remedy: 'y' }) },
    'must',
    'descriptor store',
  ],
]

for (const [what, changes, level, check] of cases) {
  test(`${what}: ${level}, with what to do`, () => {
    const found = badOf(changes)
    assert.deepEqual(
      found.map((one) => [one.check, one.level]),
      [[check, level]],
    )
    assert.ok((found[0]?.remedy ?? '').length > 0)
  })
}

test('a configuration that is there is corrected, and set-up writes only one that is missing', () => {
  const remedyOf = (hasConfigFile: boolean) => badOf({ configuration: unknown(), hasConfigFile })[0]?.remedy
  assert.equal(remedyOf(true), 'correct /etc/vmhostd/config.toml')
  assert.equal(remedyOf(false), 'vmhostd setup')
})

test('a QEMU that the configuration names is not installed, but named in another way', () => {
  const monitorVersions = { ...well.monitorVersions, qemu: unknown() }
  const remedyOf = (program: { qemuProgram?: string }) =>
    badOf({ monitorVersions, ...program })[0]?.remedy ?? ''
  assert.match(remedyOf({}), /^install the package/)
  assert.match(
    remedyOf({ qemuProgram: '/usr/bin/nope' }),
    /^correct monitor\.program, which is \/usr\/bin\/nope/,
  )
})

test('without any monitor, one must be installed', () => {
  const monitors = offers({ isExecutable: { qemu: false, firecracker: false } })
  const found = badOf({ monitors, monitorVersions: { qemu: unknown(), firecracker: unknown() } })
  assert.deepEqual(
    found.filter(({ level }) => level === 'must').map(({ check }) => check),
    ['QEMU'],
  )
})

test('a host has no SSH key before its set-up, and the daemon makes one', () => {
  assert.deepEqual(badOf({ sshKey: is('absent') }), [])
})

const FORWARDS =
  "echo 'net.ipv6.conf.all.forwarding = 1' > /etc/sysctl.d/60-vmhostd-ipv6.conf && sysctl --system"

test('before the kernel forwards, devices that learn default routes are set to keep them', () => {
  const remedyOf = (advertisedRoutes: HostFacts['advertisedRoutes']): string | undefined =>
    badOf({ forwarding: { ipv4: true, ipv6: false }, advertisedRoutes })[0]?.remedy
  assert.equal(
    remedyOf([
      { device: 'eth0', acceptRa: 1 },
      { device: 'eth1.7', acceptRa: 1 },
      { device: 'eth2', acceptRa: 2 },
    ]),
    "printf '%s\\n' 'net.ipv6.conf.eth0.accept_ra = 2' 'net/ipv6/conf/eth1.7/accept_ra = 2' " +
      `> /etc/sysctl.d/60-vmhostd-accept-ra.conf && ${FORWARDS}`,
  )
  for (const kept of [[], [{ device: 'eth0', acceptRa: 2 }], [{ device: 'eth0', acceptRa: 0 }]])
    assert.equal(remedyOf(kept), FORWARDS)
})

test('when the kernel forwards already, only a device that loses its default route is to be set', () => {
  const [finding] = badOf({ advertisedRoutes: [{ device: 'eth0', acceptRa: 1 }] })
  assert.match(finding?.found ?? '', /eth0/)
  assert.equal(
    finding?.remedy,
    "printf '%s\\n' 'net.ipv6.conf.eth0.accept_ra = 2' > /etc/sysctl.d/60-vmhostd-accept-ra.conf && sysctl --system",
  )
  assert.deepEqual(badOf({ advertisedRoutes: [{ device: 'eth0', acceptRa: 2 }] }), [])
})
