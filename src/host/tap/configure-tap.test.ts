import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tapLayout } from '../../core/network/tap.ts'
import { tapChanges } from './configure-tap.ts'
import type { TapSpec } from '../../core/network/tap.ts'
import type { DeviceName, MacAddress, UserId, VmId } from '../../core/ids.ts'

const spec: TapSpec = {
  device: 'vmt100001' as DeviceName,
  vmId: 'web-1' as VmId,
  userId: 100_001 as UserId,
  guestMac: '02:76:00:01:86:a1' as MacAddress,
  ipv4Address: '192.0.2.10',
  ipv6Address: '2001:db8::10',
}
const whole = { up: true, ...tapLayout(spec) }

const set = (address: string) =>
  ({ kind: 'set-neighbour', address, macAddress: '02:76:00:01:86:a1' }) as const

test('a new tap gets its addresses, is raised, and then gets routes and neighbours', () => {
  assert.deepEqual(tapChanges(spec, { up: false, addresses: [], routes: [], neighbours: [] }), [
    { kind: 'add-address', address: '169.254.0.1/32' },
    { kind: 'add-address', address: 'fe80::1/64' },
    { kind: 'raise' },
    { kind: 'add-route', route: '192.0.2.10/32', metric: 0 },
    { kind: 'add-route', route: '2001:db8::10/128', metric: 1 },
    set('192.0.2.10'),
    set('2001:db8::10'),
  ])
})

test('a tap that is as wanted needs no changes', () => {
  assert.deepEqual(tapChanges(spec, whole), [])
  assert.deepEqual(tapChanges(spec, { ...whole, routes: [...whole.routes, 'fe80::/64'] }), [])
})

test('remains of a former address go before the new address comes', () => {
  assert.deepEqual(tapChanges({ ...spec, ipv4Address: '192.0.2.20' }, whole), [
    { kind: 'remove-route', route: '192.0.2.10/32' },
    { kind: 'remove-neighbour', address: '192.0.2.10' },
    { kind: 'add-route', route: '192.0.2.20/32', metric: 0 },
    set('192.0.2.20'),
  ])
})

test('a new hardware address of the guest replaces the old one', () => {
  const neighbours = whole.neighbours.map(({ address }) => ({ address, macAddress: '02:76:00:00:00:20' }))
  assert.deepEqual(tapChanges(spec, { ...whole, neighbours }), [set('192.0.2.10'), set('2001:db8::10')])
})

test('removing an address family removes its gateway', () => {
  const { ipv6Address: _, ...ipv4Only } = spec
  assert.deepEqual(tapChanges(ipv4Only, whole), [
    { kind: 'remove-route', route: '2001:db8::10/128' },
    { kind: 'remove-neighbour', address: '2001:db8::10' },
    { kind: 'remove-address', address: 'fe80::1/64' },
  ])
})

test('a prefix is routed after the address by way of which it is reached', () => {
  const routed = { ...spec, ipv6Prefix: '2001:db8:1::/64' }
  const before = { ...whole, routes: ['192.0.2.10/32', '2001:db8:9::/64 via 2001:db8::10'] }
  assert.deepEqual(tapChanges(routed, before), [
    { kind: 'remove-route', route: '2001:db8:9::/64 via 2001:db8::10' },
    { kind: 'add-route', route: '2001:db8::10/128', metric: 1 },
    { kind: 'add-route', route: '2001:db8:1::/64 via 2001:db8::10', metric: 1 },
  ])
})
