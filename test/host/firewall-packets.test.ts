import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { GATEWAY_MAC, guestRuleOf } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { otherSpec, tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import { canConnect, connects, closed, families, listenOn, only, openFlow, stage } from './firewall-stage.ts'
import type { Stage } from './firewall-stage.ts'
import { neighbourSolicitation } from './frames.ts'
import { Place } from './network-stage.ts'
import { IP, ipv6, ipv6Fragment, macBytes, udp } from './packets.ts'
import type { Guest } from './network-stage.ts'

const host = new Place()

/** Returns the number of packets that the rule with this comment dropped. */
async function dropped(comment: string): Promise<number> {
  const listing = (await run(['nft', 'list', 'table', 'inet', 'vmhostd'])).stdout
  const line = listing.split('\n').find((text) => text.includes(`comment "${comment}"`))
  return Number(/packets (\d+)/.exec(line ?? '')?.[1] ?? assert.fail(`no rule "${comment}"`))
}

test('a guest reaches the world, and the world and the host reach the guest', { skip }, async (t) => {
  const all = await stage(t)
  for (const { guest, world } of families) {
    assert.equal(await only(all).reaches(world, guest), true, `guest to ${world}`)
    assert.equal(await all.world.reaches(guest), true, `world to ${guest}`)
    assert.equal(await host.reaches(guest), true, `host to ${guest}`)
  }
})

test('nothing leaves a guest under an address that is not its own', { skip }, async (t) => {
  const all = await stage(t)
  const guest = only(all)
  await all.world.listen()
  for (const { guest: own, neighbour, stranger, world } of families) {
    assert.equal(await guest.reaches(world, own), true)
    for (const made of [neighbour, stranger]) {
      const before = await dropped('not an address of the guest')
      await guest.ip(`addr add ${made} dev eth0${made.includes(':') ? ' nodad' : ''}`)
      await guest.send(world, made)
      await until(
        () => dropped('not an address of the guest'),
        (packets) => packets > before,
      )
    }
    // Sent on the same wire after the forged packets.
    assert.equal(await guest.reaches(world, own), true)
  }
  const heard = await all.world.heard()
  for (const { guest: own, neighbour, stranger } of families) {
    assert.ok(heard.includes(own))
    assert.ok(!heard.includes(neighbour) && !heard.includes(stranger))
  }
})

test('a fragment is judged before the kernel puts it together with those of others', { skip }, async (t) => {
  const all = await stage(t)
  const [, { stranger, world }] = families
  const payload = ipv6Fragment(IP.udp, 0, udp(53, 64))
  const fragment = ipv6({ source: stranger, destination: world, protocol: IP.fragment, payload })
  const before = await dropped('not an address of the guest')
  only(all).inject(Buffer.concat([macBytes(GATEWAY_MAC), macBytes(tapSpec.guestMac), fragment.subarray(12)]))
  await until(
    () => dropped('not an address of the guest'),
    (packets) => packets > before,
  )
})

test('a guest sends fragments at a bounded rate', { skip }, async (t) => {
  const all = await stage(t)
  const [, { guest: source, world }] = families
  const payload = ipv6Fragment(IP.udp, 0, udp(53, 64))
  const fragment = ipv6({ source, destination: world, protocol: IP.fragment, payload }).subarray(12)
  const frame = Buffer.concat([macBytes(GATEWAY_MAC), macBytes(tapSpec.guestMac), fragment])
  for (let i = 0; i < 5 * limits.fragmentsAtOnce; i++) only(all).inject(frame)
  await until(() => dropped('too many fragments'), Boolean)
  assert.equal(await only(all).reaches(world, source), true, 'whole packets')
})

test('nothing leaves a guest under a hardware address that is not its own', { skip }, async (t) => {
  const all = await stage(t)
  const guest = only(all)
  await guest.ip('link set eth0 address 02:76:00:01:86:a2')
  await assertSilenced(all)
  await guest.ip(`link set eth0 address ${tapSpec.guestMac}`)
  for (const { guest: own, world } of families) await until(() => guest.canPing(world, own), Boolean)
})

test('a guest that the firewall does not know sends nothing', { skip }, async (t) => {
  const all = await stage(t)
  await all.firewall.removeGuest(tapSpec.device)
  await assertSilenced(all)
  await all.firewall.ensureGuest(guestRuleOf(tapSpec))
  for (const { guest, world } of families) await until(() => only(all).canPing(world, guest), Boolean)
})

/** Checks that a guest's packets are dropped for its hardware address, and that the world receives none of them. */
async function assertSilenced(all: Stage): Promise<void> {
  await all.world.listen()
  for (const { guest, world } of families) {
    const before = await dropped('not the MAC address of the guest')
    await only(all).send(world, guest)
    await until(
      () => dropped('not the MAC address of the guest'),
      (packets) => packets > before,
    )
  }
  const heard = await all.world.heard()
  const passed = families.filter(({ guest }) => heard.includes(guest))
  assert.deepEqual(passed, [])
}

test('guests do not reach one another', { skip }, async (t) => {
  const all = await stage(t, closed, [tapSpec, otherSpec])
  const [first, second] = all.guests as [Guest, Guest]
  await second.listen()
  for (const { guest, neighbour, world } of families) {
    const before = await dropped('from guest to guest')
    await first.send(neighbour, guest)
    await until(
      () => dropped('from guest to guest'),
      (packets) => packets > before,
    )
    assert.equal(await all.world.reaches(neighbour), true)
    assert.ok((await second.heard()).includes(world))
    assert.ok(!(await second.heard()).includes(guest))
  }
})

test('guests reach one another if the operator allows it', { skip }, async (t) => {
  const all = await stage(t, { ...closed, guestToGuest: true }, [tapSpec, otherSpec])
  for (const { guest, neighbour } of families) assert.equal(await only(all).reaches(neighbour, guest), true)
})

test(
  'a guest reaches nothing of the host but its gateway, and that with echoes only',
  { skip },
  async (t) => {
    const all = await stage(t)
    const guest = only(all)
    assert.equal(await guest.reaches('169.254.0.1', families[0].guest), true)
    assert.equal(await guest.reaches('fe80::1%eth0', families[1].guest), true)
    for (const { guest: own, host: address } of families) {
      const before = await dropped('from guest to host')
      await guest.send(address, own)
      await until(
        () => dropped('from guest to host'),
        (packets) => packets > before,
      )
    }
    await listenOn(t, host, 7777)
    assert.equal(await canConnect(guest, '169.254.0.1', 7777), false)
    assert.equal(await canConnect(guest, '203.0.113.1', 7777), false)
    assert.equal(await connects(host, '169.254.0.1', 7777), true)
  },
)

test('answers of a guest to the host pass', { skip }, async (t) => {
  const all = await stage(t)
  await listenOn(t, only(all), 7777)
  for (const { guest } of families) assert.equal(await connects(host, guest, 7777), true)
})

test('a guest reaches the services that the operator offers, at its gateway', { skip }, async (t) => {
  const all = await stage(t, { ...closed, hostServices: [{ protocol: 'tcp', port: 7777 }] })
  await listenOn(t, host, 7777)
  await listenOn(t, host, 7778)
  assert.equal(await connects(only(all), '169.254.0.1', 7777), true)
  assert.equal(await connects(only(all), 'fe80::1%eth0', 7777, families[1].guest), true)
  assert.equal(await canConnect(only(all), '169.254.0.1', 7778), false)
  assert.equal(await canConnect(only(all), '203.0.113.1', 7777), false)
})

test(
  'what a guest opened to the host while there was no table ends with the next one',
  { skip },
  async (t) => {
    const all = await stage(t, { ...closed, hostServices: [{ protocol: 'udp', port: 7777 }] })
    for (const port of [7777, 7778]) await listenOn(t, host, port, 'udp')
    // The kernel tracks connections only while some table asks for them.
    const tracking =
      'table inet other { chain tracked { type filter hook input priority 0; ct state new accept; }; }'
    await run(['nft', '-f', '-'], { input: tracking })
    await run(['nft', 'delete', 'table', 'inet', 'vmhostd'])
    const to = { host: '169.254.0.1', localAddress: families[0].guest }
    const offered = await openFlow(t, only(all), { ...to, port: 7777 })
    const other = await openFlow(t, only(all), { ...to, port: 7778, localPort: 5001 })
    for (const flow of [offered, other]) assert.equal(await flow.say('before'), 'before')

    await all.firewall.ensureGuest(guestRuleOf(tapSpec))
    assert.equal(await offered.say('after'), 'after')
    other.write('after')
    await until(
      () => dropped('from guest to host'),
      (packets) => packets === 1,
    )
  },
)

test(
  'outgoing guest traffic gets the address of the host, in the families that the operator names',
  { skip },
  async (t) => {
    const all = await stage(t, { ...closed, masquerade: ['ipv4'] })
    await all.world.listen()
    for (const { guest, world } of families) assert.equal(await only(all).reaches(world, guest), true)
    const heard = await all.world.heard()
    assert.ok(heard.includes(families[0].host) && !heard.includes(families[0].guest))
    assert.ok(heard.includes(families[1].guest))
  },
)

test('a guest cannot fill the neighbour table of the host from link-local addresses', { skip }, async (t) => {
  const all = await stage(t)
  const guest = only(all)
  const sent = 500
  for (let i = 1; i <= sent; i++) {
    guest.inject(neighbourSolicitation({ mac: tapSpec.guestMac, source: `fe80::bad:${i.toString(16)}` }))
  }
  await until(
    () => dropped('too many neighbours'),
    (packets) => packets > sent / 2,
  )
  const known = (await run(['ip', '-6', 'neigh', 'show', 'dev', tapSpec.device])).stdout.split('\n').length
  // A guest's own ones are few. A table of 1,024 is for all guests.
  assert.ok(known < 20, `${known} neighbours`)
})

test('a guest cannot fill the neighbour table of the host with addresses beyond it', { skip }, async (t) => {
  const all = await stage(t)
  const [, { guest: source, world }] = families
  const sent = 500
  for (let i = 1; i <= sent; i++) {
    const frame = ipv6({ source, destination: `2001:db8:ffff::bad:${i.toString(16)}` })
    only(all).inject(Buffer.concat([macBytes(GATEWAY_MAC), macBytes(tapSpec.guestMac), frame.subarray(12)]))
  }
  await until(
    () => dropped('too many next hops'),
    (packets) => packets > sent / 2,
  )
  const known = (await run(['ip', '-6', 'neigh', 'show', 'dev', 'uplink'])).stdout.split('\n').length
  assert.ok(known < sent / 2, `${known} neighbours`)
  // The bound is a rate: it hears others again.
  await until(() => only(all).canPing(world, source), Boolean)
})

test('neighbour discovery that came through a router is dropped', { skip }, async (t) => {
  const all = await stage(t)
  await host.listen(0)
  only(all).inject(neighbourSolicitation({ mac: tapSpec.guestMac, source: 'fe80::bad', hopLimit: 254 }))
  only(all).inject(neighbourSolicitation({ mac: tapSpec.guestMac, source: 'fe80::600d' }))
  await host.hears('fe80::600d')
  const heard = await host.heard()
  assert.ok(!heard.includes('fe80::bad'))
})

test('while the table is replaced no honest packet is lost and no other passes', { skip }, async (t) => {
  const all = await stage(t)
  const guest = only(all)
  const { guest: own, world, stranger } = families[0]
  assert.equal(await guest.reaches(world, own), true)
  await guest.ip(`addr add ${stranger} dev eth0`)
  await all.world.listen()
  const flood = (from: string): Promise<string> =>
    guest.run('ping', '-n', '-q', '-i', '0.002', '-c', '250', '-W', '1', '-I', from, world)
  const flow = { over: false }
  const honest = flood(own).finally(() => (flow.over = true))
  const made = flood(stranger).catch(() => 'nothing came back')
  let replacements = 0
  while (!flow.over) {
    replacements++
    // After a transaction of somebody else the whole table is inspected; after an alteration, it is written.
    if (replacements % 2 === 0) await run(['nft', 'add', 'chain', 'inet', 'vmhostd', 'mine'])
    await all.firewall.ensureGuest({
      ...guestRuleOf(otherSpec),
      ipv4Address: `192.0.2.${100 + (replacements % 50)}`,
    })
  }
  assert.match(await honest, /250 packets transmitted, 250 received/)
  await made
  assert.ok(replacements > 3, `${replacements} replacements`)
  assert.ok(!(await all.world.heard()).includes(stranger))
})
