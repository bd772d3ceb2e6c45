/** A network behind a guest, with real packets. */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { guestRuleOf } from '../../src/core/network/tap.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { NftFirewall } from '../../src/host/nftables/nft-firewall.ts'
import { atEnd } from '../contract/at-end.ts'
import { otherSpec, tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import {
  canConnect,
  connects,
  closed,
  families,
  keepSending,
  listenOn,
  only,
  openConnection,
  recordFile,
  stage,
} from './firewall-stage.ts'
import { neighbourSolicitation } from './frames.ts'
import { Place } from './network-stage.ts'
import type { Stage } from './firewall-stage.ts'

const PREFIX = '2001:db8:1:42::/64'
const INSIDE = '2001:db8:1:42::5'
const OTHER_INSIDE = '2001:db8:1:42:ffff::1'
const OUTSIDE = '2001:db8:1:43::5'
const { guest: own, neighbour, world: far } = families[1]
const routed: TapSpec = { ...tapSpec, ipv6Prefix: PREFIX }

/** Guests of which the first has addresses of the prefix and one beside it; the world has a route to all of them. */
async function prefixStage(
  t: TestContext,
  policy = closed,
  specs: readonly TapSpec[] = [routed],
): Promise<Stage> {
  const all = await stage(t, policy, specs)
  await all.world.ip('route add 2001:db8:1::/48 via 2001:db8:ffff::1')
  for (const address of [INSIDE, OTHER_INSIDE, OUTSIDE])
    await only(all).ip(`addr add ${address}/128 dev lo nodad`)
  // The guest must not choose its link-local address, which it has after a moment: the host drops an echo from there.
  for (const [index, guest] of all.guests.entries())
    await until(() => guest.canPing('fe80::1%eth0', specs[index]?.ipv6Address), Boolean)
  return all
}

/** Returns whether the kernel has a connection to this port. */
const isTracked = async (port: number): Promise<boolean> =>
  (await readFile('/proc/net/nf_conntrack', 'utf8')).includes(`dport=${port} `)

const change = async ({ taps, firewall }: Stage, spec: TapSpec): Promise<void> => {
  await firewall.ensureGuest(guestRuleOf(spec))
  await taps.ensure(spec)
}

test(
  'addresses of the prefix reach others and are reached, and addresses beside it are not',
  { skip },
  async (t) => {
    const all = await prefixStage(t)
    for (const inside of [INSIDE, OTHER_INSIDE]) {
      assert.equal(await all.world.reaches(inside), true, inside)
      assert.equal(await only(all).reaches(far, inside), true, inside)
      assert.equal(await only(all).reaches('fe80::1%eth0', inside), true, inside)
    }
    assert.equal(await all.world.canPing(OUTSIDE), false)
    assert.equal(await all.world.reaches(own), true)
  },
)

test('a source beside the prefix does not get past the host, and counts as forged', { skip }, async (t) => {
  const all = await prefixStage(t, closed, [routed, { ...otherSpec, ipv6Prefix: '2001:db8:1:44::/64' }])
  const second = all.guests[1] ?? assert.fail()
  await second.ip(`addr add ${INSIDE}/128 dev lo nodad`)
  await all.world.listen()
  await only(all).send(far, OUTSIDE)
  await second.send(far, INSIDE)
  await only(all).send(far, INSIDE)
  await all.world.hears(INSIDE)
  assert.equal((await all.world.heard()).includes(OUTSIDE), false)
  for (const { device } of [routed, otherSpec]) {
    await until(
      () => all.firewall.counters(device),
      ({ spoofedPackets }) => spoofedPackets === 1,
    )
  }
})

test('the rules of a guest hold for its prefix, in both directions', { skip }, async (t) => {
  const ports = [{ first: 7777, last: 7777 }]
  const all = await prefixStage(t, closed, [
    {
      ...routed,
      inbound: [{ protocol: 'tcp', ports }],
      outbound: [{ action: 'deny', protocol: 'tcp', ports }],
    },
  ])
  for (const port of [7777, 7778]) {
    await listenOn(t, only(all), port)
    await listenOn(t, all.world, port)
  }
  assert.equal(await connects(all.world, INSIDE, 7777), true)
  assert.equal(await canConnect(all.world, INSIDE, 7778), false)
  assert.equal(await canConnect(only(all), far, 7777, INSIDE), false)
  assert.equal(await connects(only(all), far, 7778, INSIDE), true)
})

for (const [what, guestToGuest] of [
  ['do not reach the prefix of another, if they are kept apart', false],
  ['reach the prefix of another, if they may', true],
] as const) {
  test(`guests ${what}`, { skip }, async (t) => {
    const all = await prefixStage(t, { ...closed, guestToGuest }, [routed, otherSpec])
    assert.equal(await all.guests[1]?.canPing(INSIDE, neighbour), guestToGuest)
    assert.equal(await only(all).canPing(neighbour, INSIDE), guestToGuest)
  })
}

test('what is closed to guests is closed to their prefixes, and so is the host', { skip }, async (t) => {
  const all = await prefixStage(t)
  await all.world.ip('addr add fd00:ec2::254 dev eth0 nodad')
  await run(['ip', 'route', 'add', 'fd00:ec2::254', 'dev', 'uplink'])
  await listenOn(t, new Place(), 7777)
  await all.world.listen()
  await only(all).send('fd00:ec2::254', INSIDE)
  await only(all).send(far, OTHER_INSIDE)
  await all.world.hears(OTHER_INSIDE)
  assert.equal((await all.world.heard()).includes(INSIDE), false)
  assert.equal(await canConnect(only(all), families[1].host, 7777, INSIDE), false)
})

test('a guest cannot fill the neighbour table of the host from its prefix', { skip }, async (t) => {
  const all = await prefixStage(t)
  for (let i = 1; i <= 500; i++) {
    const source = `2001:db8:1:42::bad:${i.toString(16)}`
    only(all).inject(neighbourSolicitation({ mac: tapSpec.guestMac, source }))
  }
  // When this is answered, the frames before it have been read.
  assert.equal(await only(all).reaches('fe80::1%eth0', INSIDE), true)
  const { stdout } = await run(['ip', '-6', 'neigh', 'show', 'dev', tapSpec.device])
  const known = stdout.split('\n').filter((line) => line.startsWith('2001:db8:1:42:')).length
  assert.ok(known >= 1 && known < 100, `${known} neighbours`)
})

test('a prefix comes, changes and goes under a running guest', { skip }, async (t) => {
  const all = await prefixStage(t, closed, [tapSpec])
  assert.equal(await all.world.canPing(INSIDE), false)
  await change(all, routed)
  assert.equal(await all.world.reaches(INSIDE), true)
  await change(all, { ...routed, ipv6Prefix: '2001:db8:1:43::/64' })
  assert.equal(await all.world.canPing(INSIDE), false)
  assert.equal(await all.world.reaches(OUTSIDE), true)
  await change(all, tapSpec)
  assert.equal(await all.world.canPing(OUTSIDE), false)
  assert.equal(await all.world.reaches(own), true)
})

test(
  'a connection to a prefix does not pass the firewall of the next VM that has it',
  { skip },
  async (t) => {
    const next: TapSpec = { ...otherSpec, ipv6Prefix: PREFIX, inbound: [] }
    const all = await prefixStage(t, closed, [routed, otherSpec])
    const second = all.guests[1] ?? assert.fail()
    await second.ip(`addr add ${INSIDE}/128 dev lo nodad`)
    await listenOn(t, only(all), 7777)
    const [moved, kept] = [
      await openConnection(t, all.world, { host: INSIDE, port: 7777 }),
      await openConnection(t, all.world, { host: own, port: 7777 }),
    ]
    for (const say of [moved, kept]) assert.equal(await say('before'), 'before')
    await second.listen()
    await change(all, { ...tapSpec, inbound: [] })
    await change(all, next)
    void moved('after').catch(() => {})
    await until(
      () => all.firewall.counters(next.device),
      ({ inboundPackets }) => inboundPackets > 0,
    )
    assert.equal((await second.heard()).includes(far), false)
    assert.equal(await kept('after'), 'after')
  },
)

test(
  'a guest that keeps sending from a prefix has no connection from it once it has gone',
  { skip },
  async (t) => {
    const all = await prefixStage(t)
    await listenOn(t, all.world, 7780, 'udp')
    await keepSending(t, only(all), { host: far, port: 7780, localAddress: INSIDE })
    await until(() => isTracked(7780), Boolean)
    await all.firewall.ensureGuest(guestRuleOf(tapSpec))
    assert.equal(await isTracked(7780), false)
  },
)

test('an address within its own prefix keeps its connections when the prefix goes', { skip }, async (t) => {
  const around: TapSpec = { ...tapSpec, ipv6Prefix: '2001:db8::/64' }
  const all = await prefixStage(t, closed, [around])
  await listenOn(t, only(all), 7777)
  const say = await openConnection(t, all.world, { host: own, port: 7777 })
  assert.equal(await say('before'), 'before')
  await change(all, { ...tapSpec, inbound: [] })
  assert.equal(await say('after'), 'after')
  assert.equal(await canConnect(all.world, own, 7777), false)
})

test(
  'a daemon that starts after a killed one ends the connections of a prefix that left',
  { skip },
  async (t) => {
    const all = await prefixStage(t)
    await listenOn(t, only(all), 7779)
    const say = await openConnection(t, all.world, { host: INSIDE, port: 7779 })
    assert.equal(await say('before'), 'before')
    assert.equal(await isTracked(7779), true)
    const refusing = guestRuleOf({ ...tapSpec, inbound: [] })
    const successor = new NftFirewall({ policy: closed, guests: [refusing], recordFile })
    atEnd(t, () => successor.close())
    await successor.start()
    assert.equal(await isTracked(7779), false)
  },
)
