/**
 * Allowed destinations of a guest's packets: the addresses that no guest reaches, with any other tables and routes on
 * the host.
 */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { run } from './run.ts'
import { canConnect, connects, closed, families, listenOn, only, stage } from './firewall-stage.ts'
import { Place } from './network-stage.ts'

const host = new Place()
const [ipv4, ipv6] = families
const masqueraded = { ...closed, masquerade: ['ipv4', 'ipv6'] } as const

/** Metadata addresses of clouds, and other addresses that are valid on one link alone. */
const metadata = {
  [ipv4.world]: [
    '169.254.169.254',
    '169.254.169.253',
    '169.254.0.2',
    '168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
  ],
  [ipv6.world]: [
    'fd00:ec2::254',
    'fd20:ce::254',
    'fd00:c1::a9fe:a9fe',
    'fd00:100::100:200',
    'fd00:42::42',
    'fd00:a9fe:a9fe::1',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b::a83f:8110',
  ],
}

for (const policy of [closed, masqueraded]) {
  const how = policy.masquerade.length > 0 ? 'under the address of its host' : 'under its own address'
  test(`a guest reaches no metadata service of a cloud ${how}`, { skip }, async (t) => {
    const all = await stage(t, policy)
    for (const { guest, world } of families) {
      const pings = metadata[world].map(async (address) => {
        const flags = address.includes(':') ? ' nodad' : ''
        await all.world.ip(`addr add ${address} dev eth0${flags}`)
        await host.ip(`route add ${address} via ${world}`)
        assert.equal(await host.reaches(address), true, `the host reaches ${address}`)
        assert.equal(await only(all).canPing(address, guest), false, `the guest reaches ${address}`)
      })
      await Promise.all(pings)
      assert.equal(await only(all).reaches(world, guest), true)
    }
  })
}

test('a guest reaches no link-local address of the host but its gateway', { skip }, async (t) => {
  const all = await stage(t)
  await host.ip('addr add 169.254.7.7/32 dev uplink')
  for (const [address, guest] of [
    ['169.254.7.7', ipv4.guest],
    ['fe80::a%eth0', ipv6.guest],
  ] as const) {
    assert.equal(await only(all).canPing(address, guest), false, address)
  }
  for (const [gateway, guest] of [
    ['169.254.0.1', ipv4.guest],
    ['fe80::1%eth0', ipv6.guest],
  ] as const) {
    assert.equal(await only(all).reaches(gateway, guest), true, gateway)
  }
})

test('a port of the host that another table redirects is closed to guests too', { skip }, async (t) => {
  const all = await stage(t, { ...masqueraded, hostServices: [{ protocol: 'tcp', port: 8081 }] })
  await listenOn(t, all.world, 80)
  const redirect = families.map(
    ({ world }) =>
      `add rule inet redirects to_world meta nfproto ${world.includes(':') ? 'ipv6' : 'ipv4'} tcp dport { 8080, 8081 } dnat to ${world.includes(':') ? `[${world}]` : world}:80`,
  )
  await run(['nft', '-f', '-'], {
    input: `add table inet redirects
      add chain inet redirects to_world { type nat hook prerouting priority dstnat; }
      ${redirect.join('\n')}\n`,
  })
  for (const { guest, host: own, world } of families) {
    const gateway = own.includes(':') ? 'fe80::1%eth0' : '169.254.0.1'
    assert.equal(await connects(only(all), world, 80, guest), true)
    assert.equal(await canConnect(only(all), own, 8080, guest), false, `${own}, port 8080`)
    assert.equal(await canConnect(only(all), gateway, 8080, guest), false, `${gateway}, port 8080`)
    assert.equal(await connects(only(all), gateway, 8081, guest), true, 'what the operator offers')
  }
})
