import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GATEWAY_MAC, makingDrift, tapDrift, tapLayout } from './tap.ts'
import type { DeviceName, MacAddress, UserId, VmId } from '../ids.ts'
import type { TapSpec } from './tap.ts'
import type { TapFacts } from '../world/network-state.ts'

const spec: TapSpec = {
  device: 'vmt100001' as DeviceName,
  vmId: 'web-1' as VmId,
  userId: 100001 as UserId,
  guestMac: '02:76:00:01:86:a1' as MacAddress,
  ipv4Address: '192.0.2.10',
  ipv6Address: '2001:db8::10',
}
const made = { owner: spec.userId, macAddress: GATEWAY_MAC }
const whole: TapFacts = {
  ...made,
  up: true,
  attached: true,
  bandwidth: {},
  settings: {},
  ...tapLayout(spec),
}

test('a tap that has all it must have does not drift', () => {
  assert.deepEqual(tapDrift(spec, whole), [])
})

test('the routes that the kernel adds by itself are not drift', () => {
  assert.deepEqual(tapDrift(spec, { ...whole, routes: [...whole.routes, 'fe80::/64'] }), [])
})

test('each thing that is missing is named', () => {
  const nothing = { addresses: [], routes: [], neighbours: [] }
  const empty = { ...made, up: false, attached: false, bandwidth: {}, settings: {}, ...nothing }
  assert.deepEqual(tapDrift(spec, empty), [
    'link is down',
    'no address 169.254.0.1/32',
    'no route to 192.0.2.10',
    'no permanent neighbour 192.0.2.10',
    'no address fe80::1/64',
    'no route to 2001:db8::10',
    'no permanent neighbour 2001:db8::10',
  ])
})

test('a tap that is not as it was made is drift, by which it must be made again', () => {
  const changed = { owner: 0, group: 7, macAddress: spec.guestMac }
  const words = [
    'it belongs to user 0, not 100001',
    'only group 7 may attach to it',
    `hardware address is ${spec.guestMac}, not ${GATEWAY_MAC}`,
  ]
  assert.deepEqual(makingDrift(spec, whole), [])
  assert.deepEqual(makingDrift(spec, changed), words)
  assert.deepEqual(tapDrift(spec, { ...whole, ...changed }), words)
  assert.deepEqual(makingDrift(spec, { macAddress: GATEWAY_MAC }), ['it belongs to no user, not 100001'])
})

test('a tap that is a member of another device, which takes its packets, is drift', () => {
  assert.deepEqual(tapDrift(spec, { ...whole, memberOf: 'br0' }), ['it is a member of br0'])
})

test('a neighbour with another hardware address is drift', () => {
  const neighbours = whole.neighbours.map((entry) => ({ ...entry, macAddress: '02:00:00:00:00:01' }))
  assert.deepEqual(tapDrift(spec, { ...whole, neighbours }), [
    'no permanent neighbour 192.0.2.10',
    'no permanent neighbour 2001:db8::10',
  ])
})

test('what a former address left behind is drift', () => {
  const moved = { ...spec, ipv4Address: '192.0.2.11' }
  assert.deepEqual(tapDrift(moved, whole), [
    'no route to 192.0.2.11',
    'no permanent neighbour 192.0.2.11',
    'stale route to 192.0.2.10',
    'stale neighbour 192.0.2.10',
  ])
})

test('an address family that the guest no longer has leaves nothing behind', () => {
  const { ipv6Address: _, ...ipv4Only } = spec
  assert.deepEqual(tapDrift(ipv4Only, whole), ['stale route to 2001:db8::10', 'stale neighbour 2001:db8::10'])
})

test('whether a monitor holds the tap is not drift of the tap', () => {
  assert.deepEqual(tapDrift(spec, { ...whole, attached: false }), [])
})

test('a kernel setting that another program changed is named with both values', () => {
  const { ipv6Address: _, ...ipv4Only } = spec
  const found = { ...whole, settings: { 'ipv4/forwarding': 0, 'ipv4/rp_filter': 1, 'ipv6/disable_ipv6': 0 } }
  assert.deepEqual(tapDrift(spec, found), ['ipv4/forwarding is 0, not 1'])
  assert.deepEqual(
    tapDrift(ipv4Only, found).filter((words) => words.startsWith('ipv')),
    ['ipv4/forwarding is 0, not 1', 'ipv6/disable_ipv6 is 0, not 1'],
  )
})

test('a bandwidth limit that is missing, differs, or is no longer wanted is named with both figures', () => {
  const limited = { ...spec, bandwidth: { receiveMbitPerSecond: 20, transmitMbitPerSecond: 10 } }
  assert.deepEqual(tapDrift(limited, { ...whole, bandwidth: limited.bandwidth }), [])
  assert.deepEqual(tapDrift(limited, { ...whole, bandwidth: { transmitMbitPerSecond: 5 } }), [
    'receive limit is none, not 20 Mbit/s',
    'transmit limit is 5 Mbit/s, not 10 Mbit/s',
  ])
  assert.deepEqual(tapDrift(spec, { ...whole, bandwidth: { receiveMbitPerSecond: 20 } }), [
    'receive limit is 20 Mbit/s, not none',
  ])
})

test('a guest that cannot transmit at all is drift, with a limit and without', () => {
  const cut = { ...whole, bandwidth: { transmitMbitPerSecond: 0 } }
  assert.deepEqual(tapDrift(spec, cut), ['transmit limit is 0 Mbit/s, not none'])
  assert.deepEqual(tapDrift({ ...spec, bandwidth: { transmitMbitPerSecond: 10 } }, cut), [
    'transmit limit is 0 Mbit/s, not 10 Mbit/s',
  ])
})

test('a prefix is routed by way of the IPv6 address of the guest', () => {
  const routed = { ...spec, ipv6Prefix: '2001:db8:1::/64' }
  const facts = { ...whole, ...tapLayout(routed) }
  assert.deepEqual(facts.routes, [...whole.routes, '2001:db8:1::/64 via 2001:db8::10'])
  assert.deepEqual(tapDrift(routed, facts), [])
  assert.deepEqual(tapDrift(routed, whole), ['no route to 2001:db8:1::/64 via 2001:db8::10'])
  assert.deepEqual(tapDrift(spec, facts), ['stale route to 2001:db8:1::/64 via 2001:db8::10'])
  assert.deepEqual(tapDrift({ ...routed, ipv6Address: '2001:db8::11' }, facts).slice(2, 4), [
    'no route to 2001:db8:1::/64 via 2001:db8::11',
    'stale route to 2001:db8::10',
  ])
})
