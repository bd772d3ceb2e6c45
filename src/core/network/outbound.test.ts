import assert from 'node:assert/strict'
import { test } from 'node:test'
import { canonicalOutbound, outboundChain, outboundChains, sameOutbound } from './outbound.ts'
import type { DeviceName, MacAddress } from '../ids.ts'
import type { GuestRule } from '../world/network-state.ts'
import type { OutboundRule } from '../desired.ts'

const guest: GuestRule = {
  device: 'vmt1' as DeviceName,
  macAddress: '02:76:00:00:00:01' as MacAddress,
}
const mail: OutboundRule = { action: 'deny', protocol: 'tcp', ports: [{ first: 25, last: 25 }] }
const all: OutboundRule = { action: 'deny', protocol: 'any' }
const web: OutboundRule = { action: 'allow', protocol: 'tcp', ports: [{ first: 443, last: 443 }] }

test('a guest for which nothing is denied has no chain', () => {
  for (const outbound of [[], [web], [{ ...all, destinations: [] }], [{ ...mail, ports: [] }]]) {
    assert.equal(outboundChain({ ...guest, outbound }), undefined)
    assert.deepEqual(outboundChains({ ...guest, outbound }), [])
    assert.ok(sameOutbound(outbound, undefined))
  }
  assert.equal(outboundChain(guest), undefined)
})

test('rules keep their order; last ones that allow are left out', () => {
  assert.deepEqual(canonicalOutbound([web, mail, all, web]), [web, mail, all])
  assert.ok(!sameOutbound([web, all], [all, web]))
  assert.ok(!sameOutbound([mail], [{ ...mail, action: 'allow' }, all]))
  assert.ok(!sameOutbound([mail], [{ ...mail, destinations: ['192.0.2.0/24'] }]))
  const ports = [
    { first: 25, last: 25 },
    { first: 25, last: 25 },
  ]
  assert.ok(sameOutbound([mail], [{ ...mail, ports }]))
})

test('a rule is about the destination of a packet, and the first one decides', () => {
  const destinations = ['192.0.2.0/24', '2001:db8::/32']
  assert.deepEqual(outboundChains({ ...guest, outbound: [{ ...web, destinations }, all] }), [
    {
      name: 'from_vmt1',
      rules: [
        'ip daddr 192.0.2.0/24 tcp dport 443 accept',
        'ip6 daddr 2001:db8::/32 tcp dport 443 accept',
        'goto denied',
      ],
    },
  ])
})

test('several destinations and several ports add up', () => {
  const ports = [
    { first: 25, last: 25 },
    { first: 465, last: 587 },
  ]
  const outbound = [{ ...mail, ports, destinations: ['192.0.2.0/24', '198.51.100.0/24'] }]
  assert.deepEqual(outboundChains({ ...guest, outbound }), [
    { name: 'from_vmt1_1', rules: ['tcp dport 25 goto denied', 'tcp dport 465-587 goto denied'] },
    {
      name: 'from_vmt1',
      rules: ['ip daddr 192.0.2.0/24 jump from_vmt1_1', 'ip daddr 198.51.100.0/24 jump from_vmt1_1'],
    },
  ])
})
