import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { run } from './run.ts'
import { atEnd } from '../contract/at-end.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import { arp } from './frames.ts'
import { makeGuest, makeWorld, Place } from './network-stage.ts'
import type { Guest } from './network-stage.ts'

const host = new Place()
const { device, ipv4Address: ipv4 = '', ipv6Address: ipv6 = '', guestMac } = tapSpec

async function behindTap(
  t: TestContext,
  spec: TapSpec = tapSpec,
): Promise<{ taps: RoutedTaps; guest: Guest }> {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  await taps.ensure(spec)
  atEnd(t, () => taps.close())
  atEnd(t, () => taps.remove(spec.device, spec.vmId))
  return { taps, guest: await makeGuest(t, spec) }
}

test('the host reaches the guest, and the guest its gateway, over IPv4 and IPv6', { skip }, async (t) => {
  const { guest } = await behindTap(t)
  for (const address of [ipv4, ipv6]) assert.equal(await host.reaches(address), true, address)
  assert.equal(await guest.reaches('169.254.0.1', ipv4), true)
  assert.equal(await guest.reaches('fe80::1%eth0'), true)
})

test('the world reaches the guest through the host and back', { skip }, async (t) => {
  const world = await makeWorld(t)
  const { guest } = await behindTap(t)
  for (const address of [ipv4, ipv6]) assert.equal(await world.reaches(address), true, address)
  assert.equal(await guest.reaches('203.0.113.2'), true)
  assert.equal(await guest.reaches('2001:db8:ffff::2'), true)
})

test('a guest that answers neither ARP nor neighbour discovery is reached', { skip }, async (t) => {
  const { guest } = await behindTap(t)
  await guest.run(
    'nft',
    'add table arp deaf; add chain arp deaf in { type filter hook input priority 0; policy drop; }',
  )
  await guest.run(
    'nft',
    'add table ip6 deaf; add chain ip6 deaf in { type filter hook input priority 0; };' +
      'add rule ip6 deaf in icmpv6 type nd-neighbor-solicit drop',
  )
  // Without the answers of the host it would not know its gateway either.
  const hostMac = await macOf(device)
  await guest.ip(
    `neigh replace 169.254.0.1 lladdr ${hostMac} dev eth0 nud permanent`,
    `neigh replace fe80::1 lladdr ${hostMac} dev eth0 nud permanent`,
  )
  for (const address of [ipv4, ipv6]) assert.equal(await host.reaches(address), true, address)
})

for (const ignored of ['0', '1']) {
  const name = `packets reach a guest whose monitor is not there yet without address resolution, and with default.ignore_routes_with_linkdown=${ignored}`
  test(name, { skip }, async (t) => {
    const family = ['ipv4', 'ipv6'].map(
      (one) => `/proc/sys/net/${one}/conf/default/ignore_routes_with_linkdown`,
    )
    for (const file of family) writeFileSync(file, ignored)
    atEnd(t, () => family.forEach((file) => writeFileSync(file, '0')))
    const taps = new RoutedTaps({ storeId: 'store-1' })
    await taps.ensure(tapSpec)
    atEnd(t, () => taps.close())
    atEnd(t, () => taps.remove(device, tapSpec.vmId))
    // Packets that would leave by the device before the kernel knows that no process holds it.
    await run([
      'nft',
      'add table netdev out; add set netdev out kinds { type ether_type; flags dynamic; size 16; };' +
        `add chain netdev out see { type filter hook egress device ${device} priority 0; };` +
        'add rule netdev out see ip6 nexthdr icmpv6 icmpv6 type != echo-request accept;' +
        'add rule netdev out see update @kinds { ether type }',
    ])
    atEnd(t, () => run(['nft', 'delete table netdev out']))
    await host.send(ipv4)
    await host.send(ipv6)
    const seen = await until(
      async () => (await run(['nft', 'list set netdev out kinds'])).stdout,
      (text) => text.includes('ip6') && /\bip\b/.test(text),
    )
    assert.doesNotMatch(seen, /arp/)
  })
}

test('a guest cannot change what the host knows of it', { skip }, async (t) => {
  const { taps, guest } = await behindTap(t)
  const thief = '02:66:66:66:66:66'
  for (const sender of [ipv4, '169.254.0.1', '198.51.100.7']) {
    guest.inject(arp({ operation: 'reply', mac: thief, sender, target: '169.254.0.1' }))
    guest.inject(arp({ operation: 'request', mac: thief, sender, target: sender }))
  }
  // When this is answered, the frames before it have been read.
  assert.equal(await guest.reaches('169.254.0.1', ipv4), true)
  const state = await taps.inspect(device, tapSpec.vmId)
  assert.deepEqual(state.kind === 'present' && state.facts.neighbours.map(({ macAddress }) => macAddress), [
    guestMac,
    guestMac,
  ])
})

for (const filter of ['strict', 'loose'] as const) {
  test(
    `a guest cannot fill the ARP table of a host whose reverse path filter is ${filter}`,
    { skip },
    async (t) => {
      await makeWorld(t)
      // As every host has it: without one, even a loose filter refuses the forged senders.
      await host.ip('route add default via 203.0.113.2')
      const { guest } = await behindTap(t)
      // Ubuntu's value for all devices. The kernel uses the larger one of this and the device's own.
      const all = '/proc/sys/net/ipv4/conf/all/rp_filter'
      const before = readFileSync(all, 'utf8')
      atEnd(t, () => writeFileSync(all, before))
      writeFileSync(all, filter === 'loose' ? '2' : '1')
      for (let i = 1; i < 200; i++) {
        const sender = `198.51.100.${i}`
        guest.inject(arp({ operation: 'request', mac: guestMac, sender, target: '169.254.0.1' }))
      }
      assert.equal(await guest.reaches('169.254.0.1', ipv4), true)
      const known = JSON.parse((await run(['ip', '-j', '-4', 'neigh', 'show', 'dev', device])).stdout) as {
        dst: string
      }[]
      assert.deepEqual(
        known.map(({ dst }) => dst),
        [ipv4],
      )
    },
  )
}

test('the host does not reveal its other addresses to a guest', { skip }, async (t) => {
  await makeWorld(t)
  const { guest } = await behindTap(t)
  await guest.ip('route add 203.0.113.1 dev eth0')
  await guest.send('203.0.113.1')
  await until(
    async () => await guest.run('ip', '-4', 'neigh', 'show', '203.0.113.1'),
    (entry) => /FAILED|INCOMPLETE|REACHABLE/.test(entry),
  )
  assert.doesNotMatch(await guest.run('ip', '-4', 'neigh', 'show', '203.0.113.1'), /lladdr/)
})

test('even without a firewall a forged IPv4 source does not get past the tap', { skip }, async (t) => {
  const world = await makeWorld(t)
  const { guest } = await behindTap(t)
  await world.listen()
  assert.equal(await guest.reaches('169.254.0.1', ipv4), true)
  await guest.ip('addr add 198.51.100.9/32 dev eth0')
  await guest.send('203.0.113.2', '198.51.100.9')
  await guest.send('203.0.113.2', ipv4)
  await world.hears(ipv4)
  assert.deepEqual(
    (await world.heard()).filter((source) => source === '198.51.100.9'),
    [],
  )
})

test('a guest without IPv6 gets none from the host', { skip }, async (t) => {
  const { ipv6Address: _, ...ipv4Only } = tapSpec
  const { guest } = await behindTap(t, ipv4Only)
  assert.equal(await host.reaches(ipv4), true)
  assert.equal(await guest.canPing('fe80::1%eth0'), false)
  assert.equal((await run(['ip', '-6', 'addr', 'show', 'dev', device])).stdout, '')
})

test(
  'the user of the VM may hold its tap without any privilege, and another user may not',
  { skip },
  async (t) => {
    const taps = new RoutedTaps({ storeId: 'store-1' })
    await taps.ensure(tapSpec)
    // As on a host with udev: every user may open it.
    await host.run('mknod', '-m', '666', '/run/netns/.tun', 'c', '10', '200')
    await host.run('mount', '--bind', '/run/netns/.tun', '/dev/net/tun')
    atEnd(t, () => taps.close())
    atEnd(t, () => taps.remove(device, tapSpec.vmId))
    atEnd(t, () => host.run('umount', '/dev/net/tun'))
    const hold = (userId: number): Promise<string> => {
      const script = `import { attachTap } from '${import.meta.dirname}/attach-tap.ts'
      process.setgroups([]); process.setgid(${userId}); process.setuid(${userId})
      try { attachTap('${device}'); console.log('held') } catch (error) { console.log(error.code) }`
      return host.run(process.execPath, '--input-type=module', '-e', script)
    }
    assert.equal(await hold(tapSpec.userId), 'held\n')
    assert.equal(await hold(tapSpec.userId + 1), 'EPERM\n')
  },
)

async function macOf(name: string): Promise<string> {
  const [link] = JSON.parse((await run(['ip', '-j', 'link', 'show', 'dev', name])).stdout) as {
    address: string
  }[]
  return link?.address ?? assert.fail(`no link ${name}`)
}
