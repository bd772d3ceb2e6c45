import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tapLayout } from '../../core/network/tap.ts'
import { ipBatch } from './configure-tap.ts'
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

test('a new tap gets its addresses, is raised, and then gets routes and neighbours', () => {
  assert.deepEqual(ipBatch(spec, { up: false, addresses: [], routes: [], neighbours: [] }), [
    'addr add 169.254.0.1/32 dev vmt100001 scope link',
    'addr add fe80::1/64 dev vmt100001 scope link nodad',
    'link set dev vmt100001 up',
    'route add 192.0.2.10/32 dev vmt100001',
    'route add 2001:db8::10/128 dev vmt100001',
    'neigh replace 192.0.2.10 lladdr 02:76:00:01:86:a1 dev vmt100001 nud permanent',
    'neigh replace 2001:db8::10 lladdr 02:76:00:01:86:a1 dev vmt100001 nud permanent',
  ])
})

test('a tap that is as wanted needs no commands', () => {
  assert.deepEqual(ipBatch(spec, whole), [])
  assert.deepEqual(ipBatch(spec, { ...whole, routes: [...whole.routes, 'fe80::/64'] }), [])
})

test('remains of a former address go before the new address comes', () => {
  assert.deepEqual(ipBatch({ ...spec, ipv4Address: '192.0.2.20' }, whole), [
    'route del 192.0.2.10/32 dev vmt100001',
    'neigh del 192.0.2.10 dev vmt100001',
    'route add 192.0.2.20/32 dev vmt100001',
    'neigh replace 192.0.2.20 lladdr 02:76:00:01:86:a1 dev vmt100001 nud permanent',
  ])
})

test('removing an address family removes its gateway', () => {
  const { ipv6Address: _, ...ipv4Only } = spec
  assert.deepEqual(ipBatch(ipv4Only, whole), [
    'route del 2001:db8::10/128 dev vmt100001',
    'neigh del 2001:db8::10 dev vmt100001',
    'addr del fe80::1/64 dev vmt100001',
  ])
})

test('a prefix is routed after the address by way of which it is reached', () => {
  const routed = { ...spec, ipv6Prefix: '2001:db8:1::/64' }
  const before = { ...whole, routes: ['192.0.2.10/32', '2001:db8:9::/64 via 2001:db8::10'] }
  assert.deepEqual(ipBatch(routed, before), [
    'route del 2001:db8:9::/64 via 2001:db8::10 dev vmt100001',
    'route add 2001:db8::10/128 dev vmt100001',
    'route add 2001:db8:1::/64 via 2001:db8::10 dev vmt100001',
  ])
})
