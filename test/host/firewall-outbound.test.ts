/** A guest's own rules for what it opens to others, with real packets. */
import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OutboundRule } from '../../src/core/desired.ts'
import { guestRuleOf } from '../../src/core/network/tap.ts'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { otherSpec, tapSpec } from '../contract/taps-stage.ts'
import {
  ask,
  canConnect,
  closed,
  connects,
  families,
  listenOn,
  only,
  openConnection,
  stage,
} from './firewall-stage.ts'

const bound = (...outbound: readonly OutboundRule[]): TapSpec => ({ ...tapSpec, outbound })
const port = (first: number, last = first) => ({ first, last })
const denyAll: OutboundRule = { action: 'deny', protocol: 'any' }
const worlds = families.map(({ world }) => `${world}/${world.includes(':') ? 128 : 32}`)

test('a denied port is closed to the guest, and all else stays open', { skip }, async (t) => {
  const all = await stage(t, closed, [
    bound({ action: 'deny', protocol: 'tcp', ports: [port(25), port(7000, 7001)] }),
    otherSpec,
  ])
  const [guest = assert.fail(), other = assert.fail()] = all.guests
  for (const listening of [25, 7001, 7002]) await listenOn(t, all.world, listening)
  await listenOn(t, all.world, 7001, 'udp')
  for (const { guest: from, neighbour, world } of families) {
    assert.equal(await canConnect(guest, world, 25, from), false)
    assert.equal(await canConnect(guest, world, 7001, from), false)
    assert.equal(await connects(guest, world, 7002, from), true)
    assert.equal(await ask(guest, { host: world, port: 7001, localAddress: from }), 'answered')
    assert.equal(await guest.reaches(world, from), true)
    assert.equal(await connects(other, world, 25, neighbour), true, 'a guest without rules')
  }
})

test('the first rule that is about a connection decides', { skip }, async (t) => {
  const destinations = [...worlds, '198.51.100.0/24', '2001:db8:1::/48']
  const allowed: OutboundRule = {
    action: 'allow',
    protocol: 'tcp',
    ports: [port(443), port(8443)],
    destinations,
  }
  const all = await stage(t, closed, [bound(allowed, denyAll)])
  for (const listening of [80, 443, 8443]) await listenOn(t, all.world, listening)
  for (const { guest, world } of families) {
    for (const listening of [443, 8443])
      assert.equal(await connects(only(all), world, listening, guest), true)
    assert.equal(await canConnect(only(all), world, 80, guest), false)
    assert.equal(await only(all).canPing(world, guest), false)
  }
  await all.firewall.ensureGuest(guestRuleOf(bound(denyAll, allowed)))
  for (const { guest, world } of families) assert.equal(await canConnect(only(all), world, 443, guest), false)
  await all.firewall.ensureGuest(guestRuleOf(tapSpec))
  for (const { guest, world } of families) assert.equal(await connects(only(all), world, 80, guest), true)
})

test('a guest that may open nothing answers others, and reaches its gateway', { skip }, async (t) => {
  const all = await stage(t, closed, [bound(denyAll)])
  await listenOn(t, only(all), 7777)
  await listenOn(t, only(all), 7777, 'udp')
  for (const { guest, world } of families) {
    assert.equal(await only(all).canPing(world, guest), false)
    assert.equal(await all.world.reaches(guest), true)
    assert.equal(await connects(all.world, guest, 7777, world), true)
    assert.equal(await ask(all.world, { host: guest, port: 7777, localAddress: world }), 'answered')
    // The guest reports its closed port with an ICMP error.
    assert.equal(await ask(all.world, { host: guest, port: 7778, localAddress: world }), 'ECONNREFUSED')
  }
  assert.equal(await only(all).reaches('169.254.0.1', families[0].guest), true)
  assert.equal(await only(all).reaches('fe80::1%eth0', families[1].guest), true)
})

test('no rule opens what is closed to all guests', { skip }, async (t) => {
  const all = await stage(t, closed, [bound({ action: 'allow', protocol: 'any' }, denyAll), otherSpec])
  await all.world.ip('addr add 169.254.169.254 dev eth0')
  const [{ guest, neighbour, host }] = families
  assert.equal(await only(all).canPing('169.254.169.254', guest), false)
  assert.equal(await only(all).canPing(neighbour, guest), false)
  assert.equal(await canConnect(only(all), host, 22, guest), false)
  assert.equal(await only(all).reaches(families[0].world, guest), true)
})

test('guests that reach one another obey the rules of the caller too', { skip }, async (t) => {
  const all = await stage(t, { ...closed, guestToGuest: true }, [bound(denyAll), otherSpec])
  const [first = assert.fail(), second = assert.fail()] = all.guests
  for (const { guest, neighbour } of families) {
    assert.equal(await first.canPing(neighbour, guest), false)
    assert.equal(await second.reaches(guest, neighbour), true)
  }
})

test('new rules apply to connections opened from then on, and open ones continue', { skip }, async (t) => {
  const all = await stage(t, closed, [tapSpec])
  await listenOn(t, all.world, 7777)
  for (const { guest, world } of families) {
    const say = await openConnection(t, only(all), { host: world, port: 7777 })
    assert.equal(await say('before'), 'before')
    await all.firewall.ensureGuest(guestRuleOf(bound(denyAll)))
    assert.equal(await say('after'), 'after')
    assert.equal(await canConnect(only(all), world, 7777, guest), false)
    await all.firewall.ensureGuest(guestRuleOf(tapSpec))
    assert.equal(await connects(only(all), world, 7777, guest), true)
  }
})
