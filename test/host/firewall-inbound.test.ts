import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InboundRule } from '../../src/core/desired.ts'
import { guestRuleOf } from '../../src/core/network/tap.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { otherSpec, tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import {
  ask,
  connects,
  closed,
  families,
  knock,
  listenOn,
  only,
  openConnection,
  stage,
} from './firewall-stage.ts'
import type { Stage } from './firewall-stage.ts'
import { Place } from './network-stage.ts'

const host = new Place()
const worlds = families.map(({ world }) => world)
/** Addresses of the world that no rule names. */
const elsewhere = ['203.0.113.3', '2001:db8:ffff::3'] as const

const open = (...inbound: readonly InboundRule[]): TapSpec => ({ ...tapSpec, inbound })
const port = (first: number, last = first) => ({ first, last })
const networkOf = (address: string): string => `${address}/${address.includes(':') ? 128 : 32}`

/** Checks that a packet to the guest is dropped, and counted for it. */
async function isRefused(
  { firewall }: Stage,
  send: () => Promise<void>,
  { device } = tapSpec,
): Promise<void> {
  const { inboundPackets } = await firewall.counters(device)
  await send()
  await until(
    () => firewall.counters(device),
    (drops) => drops.inboundPackets > inboundPackets,
  )
}

async function moveIn(world: Place): Promise<void> {
  await world.ip(`addr add ${elsewhere[0]}/24 dev eth0`, `addr add ${elsewhere[1]}/64 dev eth0 nodad`)
}

test(
  'a TCP port passes from the sources that may open it; other sources and ports do not',
  { skip },
  async (t) => {
    const sources = worlds.map(networkOf)
    const all = await stage(t, closed, [
      open({ protocol: 'tcp', ports: [port(22), port(8000, 8001)], sources }),
    ])
    await moveIn(all.world)
    for (const listening of [22, 8001, 8002]) await listenOn(t, only(all), listening)
    for (const [i, { guest, world }] of families.entries()) {
      assert.equal(await connects(all.world, guest, 22, world), true)
      assert.equal(await connects(all.world, guest, 8001, world), true)
      await isRefused(all, () => knock(all.world, { host: guest, port: 8002, localAddress: world }))
      await isRefused(all, () =>
        knock(all.world, { host: guest, port: 22, localAddress: elsewhere[i] ?? '' }),
      )
      await isRefused(all, () => all.world.send(guest, world))
    }
  },
)

test('several ports from several sources of one family are each judged by both', { skip }, async (t) => {
  const sources = [networkOf(worlds[0] ?? ''), '198.51.100.0/24', '2001:db8:ffff::/64', '2001:db8:1::/48']
  const all = await stage(t, closed, [open({ protocol: 'tcp', ports: [port(22), port(8001)], sources })])
  await moveIn(all.world)
  for (const listening of [22, 8001]) await listenOn(t, only(all), listening)
  for (const { guest, world } of families) {
    for (const listening of [22, 8001]) assert.equal(await connects(all.world, guest, listening, world), true)
    await isRefused(all, () => knock(all.world, { host: guest, port: 23, localAddress: world }))
  }
  // In the other family the whole network may open them.
  const [ipv4, ipv6] = families
  await isRefused(all, () => knock(all.world, { host: ipv4.guest, port: 22, localAddress: elsewhere[0] }))
  assert.equal(await connects(all.world, ipv6.guest, 22, elsewhere[1]), true)
})

test('a UDP port passes; another one and the same one of TCP do not', { skip }, async (t) => {
  const all = await stage(t, closed, [open({ protocol: 'udp', ports: [port(5353)] })])
  await listenOn(t, only(all), 5353, 'udp')
  for (const { guest, world: localAddress } of families) {
    assert.equal(await ask(all.world, { host: guest, port: 5353, localAddress }), 'answered')
    await isRefused(all, () => knock(all.world, { host: guest, port: 5354, localAddress }, 'udp'))
    await isRefused(all, () => knock(all.world, { host: guest, port: 5353, localAddress }))
  }
})

test('echoes pass if ICMP is allowed, in the families of its sources', { skip }, async (t) => {
  const all = await stage(t, closed, [open({ protocol: 'icmp' })])
  const [ipv4, ipv6] = families
  for (const { guest, world } of families) {
    assert.equal(await all.world.reaches(guest), true)
    await isRefused(all, () => knock(all.world, { host: guest, port: 22, localAddress: world }))
  }
  await all.firewall.ensureGuest(guestRuleOf(open({ protocol: 'icmp', sources: ['::/0'] })))
  assert.equal(await all.world.reaches(ipv6.guest), true)
  await isRefused(all, () => all.world.send(ipv4.guest, ipv4.world))
})

test("the host's setting decides for a guest without rules of its own", { skip }, async (t) => {
  const specs = [tapSpec, { ...otherSpec, inbound: [{ protocol: 'any' as const }] }]
  const all = await stage(t, { ...closed, inboundDefault: 'drop' }, specs)
  for (const { guest, neighbour, world } of families) {
    await isRefused(all, () => all.world.send(guest, world))
    assert.equal(await all.world.reaches(neighbour), true)
  }
})

test('an empty list closes a guest that would be open', { skip }, async (t) => {
  const all = await stage(t, closed, [open(), otherSpec])
  for (const { guest, neighbour, world } of families) {
    await isRefused(all, () => all.world.send(guest, world))
    assert.equal(await all.world.reaches(neighbour), true)
  }
})

test(
  'a closed guest reaches the world, gets its replies and errors, and is reached by the host',
  { skip },
  async (t) => {
    const all = await stage(t, { ...closed, inboundDefault: 'drop' }, [open()])
    await listenOn(t, all.world, 7777)
    await listenOn(t, only(all), 7777)
    for (const { guest, world } of families) {
      assert.equal(await only(all).reaches(world, guest), true)
      assert.equal(await connects(only(all), world, 7777, guest), true)
      // The world reports the closed port with an ICMP error.
      assert.equal(await ask(only(all), { host: world, port: 7778, localAddress: guest }), 'ECONNREFUSED')
      assert.equal(await host.reaches(guest), true)
      assert.equal(await connects(host, guest, 7777), true)
    }
    assert.deepEqual(await all.firewall.counters(tapSpec.device), { spoofedPackets: 0, inboundPackets: 0 })
  },
)

test('guests that reach one another obey the rules of the called guest', { skip }, async (t) => {
  const closedSpec = { ...otherSpec, inbound: [] }
  const all = await stage(t, { ...closed, guestToGuest: true }, [tapSpec, closedSpec])
  const [first = assert.fail(), second = assert.fail()] = all.guests
  for (const { guest, neighbour } of families) {
    await isRefused(all, () => first.send(neighbour, guest), otherSpec)
    assert.equal(await second.reaches(guest, neighbour), true)
  }
})

test('new rules apply to connections opened from then on, and open ones continue', { skip }, async (t) => {
  const all = await stage(t, closed, [open({ protocol: 'tcp', ports: [port(7777)] })])
  await listenOn(t, only(all), 7777)
  for (const { guest, world } of families) {
    const say = await openConnection(t, all.world, { host: guest, port: 7777 })
    assert.equal(await say('before'), 'before')
    await all.firewall.ensureGuest(guestRuleOf(open()))
    assert.equal(await say('after'), 'after')
    await isRefused(all, () => knock(all.world, { host: guest, port: 7777, localAddress: world }))
    await all.firewall.ensureGuest(guestRuleOf(open({ protocol: 'tcp', ports: [port(7777)] })))
    assert.equal(await connects(all.world, guest, 7777, world), true)
  }
})

test('packets are counted for the guest that sent them or was their destination', { skip }, async (t) => {
  const all = await stage(t, closed, [open(), { ...otherSpec, inbound: [] }])
  const [first = assert.fail(), second = assert.fail()] = all.guests
  const [{ guest, neighbour, world, stranger }] = families
  for (let i = 0; i < 3; i++) await all.world.send(guest, world)
  await all.world.send(neighbour, world)
  // The host does not answer a forged sender that asks for its gateway, so the guest asks as itself first.
  assert.equal(await second.reaches(world, neighbour), true)
  await second.ip(`addr add ${stranger} dev eth0`)
  for (let i = 0; i < 2; i++) await second.send(world, stranger)
  await first.send(world, guest)
  const counted = async (): Promise<unknown> => [
    await all.firewall.counters(tapSpec.device),
    await all.firewall.counters(otherSpec.device),
  ]
  const expected = [
    { spoofedPackets: 0, inboundPackets: 3 },
    { spoofedPackets: 2, inboundPackets: 1 },
  ]
  await until(counted, (drops) => JSON.stringify(drops) === JSON.stringify(expected))
  // Counting continues when the table is rewritten.
  await run(['nft', 'add', 'chain', 'inet', 'vmhostd', 'mine'])
  await all.firewall.ensureGuest(guestRuleOf(open()))
  assert.deepEqual(await counted(), expected)
  await isRefused(all, () => all.world.send(guest, world))
  assert.deepEqual(await all.firewall.counters(tapSpec.device), { spoofedPackets: 0, inboundPackets: 4 })
})

test(
  'a table that somebody removed is noticed, and restored with the rules of all guests',
  { skip },
  async (t) => {
    const rules = [open(), { ...otherSpec, inbound: [] }].map(guestRuleOf)
    const all = await stage(t, closed, [open(), { ...otherSpec, inbound: [] }])
    const notices = { count: 0 }
    all.firewall.watch(() => notices.count++)
    const [{ guest, neighbour, world }] = families
    await isRefused(all, () => all.world.send(guest, world))
    await run(['nft', 'flush', 'ruleset'])
    await until(
      () => notices.count,
      (count) => count > 0,
    )
    assert.deepEqual(await all.firewall.inspect(tapSpec.device), { kind: 'absent', rule: rules[0] })
    assert.equal(await all.world.reaches(guest), true)
    await all.firewall.ensureGuest(guestRuleOf(open()))
    for (const rule of rules) {
      assert.deepEqual(await all.firewall.inspect(rule.device), { kind: 'intact', rule })
    }
    await isRefused(all, () => all.world.send(guest, world))
    await isRefused(all, () => all.world.send(neighbour, world), otherSpec)
  },
)
