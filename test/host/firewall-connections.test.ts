/** Entries for guests' connections in the kernel: they end with a guest's address, and each guest has a bound. */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { guestRuleOf } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { atEnd } from '../contract/at-end.ts'
import { otherSpec, tapSpec } from '../contract/taps-stage.ts'
import { until } from '../contract/until.ts'
import {
  canConnect,
  connects,
  closed,
  families,
  listenOn,
  only,
  openAndEnd,
  openConnection,
  openFlow,
  openMany,
  stage,
} from './firewall-stage.ts'
import { makeGuest, Place } from './network-stage.ts'

const host = new Place()
const CONNECTIONS = 40
const bounded = { ...closed, connectionsMax: CONNECTIONS }

/** Another VM, which gets the addresses of the first and accepts no inbound connections. */
const nextSpec = {
  ...otherSpec,
  ipv4Address: families[0].guest,
  ipv6Address: families[1].guest,
  inbound: [],
}

for (const { guest, world } of families) {
  test(
    `a flow to ${guest} does not pass the firewall of the next VM at that address`,
    { skip },
    async (t) => {
      const all = await stage(t)
      await listenOn(t, only(all), 7777, 'udp')
      const flow = await openFlow(t, all.world, { host: guest, port: 7777, localAddress: world })
      assert.equal(await flow.say('to the first'), 'to the first')

      await all.taps.remove(tapSpec.device, tapSpec.vmId)
      flow.write('to no guest')
      await all.firewall.removeGuest(tapSpec.device)
      flow.write('to no guest')
      atEnd(t, () => run(['ip', 'link', 'del', nextSpec.device], { okCodes: [0, 1] }))
      await all.firewall.ensureGuest(guestRuleOf(nextSpec))
      await all.taps.ensure(nextSpec)
      const next = await makeGuest(t, nextSpec)
      await next.listen()
      flow.write('to the next')
      await until(
        () => all.firewall.counters(nextSpec.device),
        ({ inboundPackets }) => inboundPackets > 0,
      )
      assert.ok(!(await next.heard()).includes(world))
    },
  )
}

test(
  'a guest that gets another address loses its connections, and no other guest does',
  { skip },
  async (t) => {
    const all = await stage(t)
    const [ipv4, ipv6] = families
    await listenOn(t, only(all), 7777, 'udp')
    await listenOn(t, all.world, 7777)
    const kept = await openConnection(t, only(all), { host: ipv6.world, port: 7777 })
    assert.equal(await kept('before'), 'before')
    const flow = await openFlow(t, all.world, { host: ipv4.guest, port: 7777, localAddress: ipv4.world })
    assert.equal(await flow.say('before'), 'before')

    const changed = { ...tapSpec, ipv4Address: ipv4.stranger, inbound: [] }
    await all.firewall.ensureGuest(guestRuleOf(changed))
    flow.write('after')
    await until(
      () => all.firewall.counters(tapSpec.device),
      ({ inboundPackets }) => inboundPackets > 0,
    )
    assert.equal(await kept('after'), 'after')
  },
)

test(
  'a guest at its bound of connections opens no further ones, and others connect as before',
  { skip },
  async (t) => {
    const all = await stage(t, bounded, [tapSpec, otherSpec])
    const [first = assert.fail(), second = assert.fail()] = all.guests
    for (const place of [all.world, first]) await listenOn(t, place, 7777)
    for (const { guest, neighbour, world } of families) {
      const kept = await openConnection(t, second, { host: world, port: 7777 })
      const to = { host: world, port: 7777, localAddress: guest }
      const many = await openMany(t, first, { ...to, count: 2 * CONNECTIONS, expected: CONNECTIONS })
      assert.equal(many.open, CONNECTIONS)
      assert.equal(await canConnect(first, world, 7777, guest), false)

      assert.equal(await kept('still here'), 'still here')
      assert.equal(await connects(second, world, 7777, neighbour), true, 'another guest')
      assert.equal(await connects(host, world, 7777), true, 'the host')
      assert.equal(await connects(host, guest, 7777), true, 'the host to the guest')
      assert.equal(await connects(all.world, guest, 7777, world), true, 'others to the guest')

      await many.end()
      await until(() => canConnect(first, world, 7777, guest), Boolean)
    }
  },
)

test(
  "other hosts at the bound of connections to a guest do not restrict the guest's own",
  { skip },
  async (t) => {
    const all = await stage(t, bounded, [tapSpec, otherSpec])
    const [first = assert.fail(), second = assert.fail()] = all.guests
    for (const place of [all.world, first, second]) await listenOn(t, place, 7777)
    for (const { guest, neighbour, world } of families) {
      const to = { host: guest, port: 7777, localAddress: world }
      const many = await openMany(t, all.world, { ...to, count: 2 * CONNECTIONS, expected: CONNECTIONS })
      assert.equal(many.open, CONNECTIONS)
      assert.equal(await connects(first, world, 7777, guest), true, 'the guest')
      assert.equal(await connects(all.world, neighbour, 7777, world), true, 'others to another guest')
      await many.end()
      await until(() => canConnect(all.world, guest, 7777, world), Boolean)
    }
  },
)

test(
  'the host soon forgets the ended connections of a guest and of its clients, which no bound counts',
  { skip },
  async (t) => {
    const all = await stage(t)
    const guestPlace = only(all)
    for (const place of [all.world, guestPlace]) await listenOn(t, place, 7777)
    const count = 500
    for (const { guest, world } of families) {
      const out = { host: world, port: 7777, localAddress: guest, count }
      assert.equal(await openAndEnd(guestPlace, out), count)
      const into = { host: guest, port: 7777, localAddress: world, count }
      assert.equal(await openAndEnd(all.world, into), count)
    }
    // Far below the two minutes for which the kernel keeps them otherwise.
    await until(trackedConnections, (tracked) => tracked < count / 10, 10_000)
  },
)

/** Returns how many connections the kernel tracks on the host. The reading lets it remove those whose time is over. */
const trackedConnections = (): number =>
  readFileSync('/proc/net/nf_conntrack', 'utf8')
    .split('\n')
    .filter((line) => line.includes('dport=7777')).length
