import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sameGuestRule } from './guest-rule.ts'
import { canonicalInbound, sameInbound, inboundChain, inboundChains } from './inbound.ts'
import type { DeviceName, MacAddress } from '../ids.ts'
import type { GuestRule } from '../world/network-state.ts'
import type { InboundRule } from '../desired.ts'

test('ports are joined to the fewest ranges', () => {
  const ports = [
    { first: 8000, last: 8100 },
    { first: 81, last: 81 },
    { first: 80, last: 80 },
    { first: 8050, last: 8060 },
    { first: 443, last: 443 },
  ]
  assert.deepEqual(canonicalInbound([{ protocol: 'tcp', ports }]), [
    {
      protocol: 'tcp',
      ports: [
        { first: 80, last: 81 },
        { first: 443, last: 443 },
        { first: 8000, last: 8100 },
      ],
    },
  ])
})

test('a source that lies in another is left out', () => {
  const sources = ['192.0.2.64/26', '2001:db8:1::/48', '192.0.2.0/24', '2001:db8::/32', '192.0.2.0/24']
  assert.deepEqual(canonicalInbound([{ protocol: 'any', sources }]), [
    { protocol: 'any', sources: ['192.0.2.0/24', '2001:db8::/32'] },
  ])
})

test('a rule that lets nothing in is left out, and so are ports that do not apply', () => {
  assert.deepEqual(
    canonicalInbound([
      { protocol: 'tcp', ports: [] },
      { protocol: 'any', sources: [] },
    ]),
    [],
  )
  assert.deepEqual(canonicalInbound([{ protocol: 'icmp', ports: [{ first: 1, last: 1 }] }]), [
    { protocol: 'icmp' },
  ])
})

test('order and repetition make no difference between rules; a port, a source, a protocol or a missing list do', () => {
  const ssh = { protocol: 'tcp', ports: [{ first: 22, last: 22 }], sources: ['192.0.2.0/24'] } as const
  const ping = { protocol: 'icmp' } as const
  assert.ok(sameInbound([ssh, ping], [ping, ssh, ssh]))
  assert.ok(sameInbound([], [{ protocol: 'udp', ports: [] }]))
  assert.ok(sameInbound(undefined, undefined))
  const others: readonly (readonly InboundRule[] | undefined)[] = [
    undefined,
    [],
    [ssh],
    [{ ...ssh, protocol: 'udp' }, ping],
    [{ ...ssh, ports: [{ first: 22, last: 23 }] }, ping],
    [{ ...ssh, sources: ['192.0.2.0/25'] }, ping],
    [{ protocol: 'tcp', sources: ssh.sources }, ping],
  ]
  for (const other of others) assert.ok(!sameInbound([ssh, ping], other), JSON.stringify(other))
  assert.ok(!sameInbound([], undefined))
})

test('rules of guests are the same when all that they say is', () => {
  const rule: GuestRule = {
    device: 'vmt100001' as DeviceName,
    macAddress: '02:76:00:01:86:a1' as MacAddress,
    ipv4Address: '192.0.2.10',
    inbound: [{ protocol: 'icmp' }, { protocol: 'udp' }],
  }
  assert.ok(sameGuestRule(rule, { ...rule, inbound: [{ protocol: 'udp' }, { protocol: 'icmp' }] }))
  const { ipv4Address: _, ...addressless } = rule
  const { inbound: __, ...unruled } = rule
  const others: readonly GuestRule[] = [
    addressless,
    unruled,
    { ...rule, device: 'vmt100002' as DeviceName },
    { ...rule, macAddress: '02:76:00:01:86:a2' as MacAddress },
    { ...rule, ipv6Address: '2001:db8::10' },
    { ...rule, inbound: [] },
  ]
  for (const other of others) assert.ok(!sameGuestRule(rule, other), JSON.stringify(other))
})

const guest: GuestRule = {
  device: 'vmt1' as DeviceName,
  macAddress: '02:76:00:00:00:01' as MacAddress,
}
const only = (...inbound: readonly InboundRule[]): readonly string[] => {
  const [chain, ...others] = inboundChains({ ...guest, inbound })
  assert.equal(chain?.name, 'to_vmt1')
  assert.deepEqual(others, [])
  return chain.rules
}

test('a guest without rules of its own has no chain, and one that lets nothing in shares that of refusal', () => {
  assert.equal(inboundChain(guest), undefined)
  assert.deepEqual(inboundChains(guest), [])
  for (const inbound of [[], [{ protocol: 'tcp', ports: [] }]] as const) {
    assert.equal(inboundChain({ ...guest, inbound }), 'refused')
    assert.deepEqual(inboundChains({ ...guest, inbound }), [])
  }
})

test('what a rule does not name is any: any protocol, any port, any source', () => {
  assert.deepEqual(only({ protocol: 'any' }), ['accept', 'goto refused'])
  assert.deepEqual(only({ protocol: 'udp' }), ['meta l4proto udp accept', 'goto refused'])
  assert.deepEqual(only({ protocol: 'any', sources: ['192.0.2.0/24'] }), [
    'ip saddr 192.0.2.0/24 accept',
    'goto refused',
  ])
})

test('ports and ranges of ports are rules of their own', () => {
  const ports = [
    { first: 80, last: 80 },
    { first: 8000, last: 8100 },
  ]
  assert.deepEqual(only({ protocol: 'tcp', ports }), [
    'tcp dport 80 accept',
    'tcp dport 8000-8100 accept',
    'goto refused',
  ])
})

test('sources are matched by their family, and a network of all addresses is the family', () => {
  const sources = ['192.0.2.0/24', '2001:db8::/32', '198.51.100.7/32']
  assert.deepEqual(only({ protocol: 'udp', ports: [{ first: 53, last: 53 }], sources }), [
    'ip saddr 192.0.2.0/24 udp dport 53 accept',
    'ip saddr 198.51.100.7/32 udp dport 53 accept',
    'ip6 saddr 2001:db8::/32 udp dport 53 accept',
    'goto refused',
  ])
  assert.deepEqual(only({ protocol: 'any', sources: ['0.0.0.0/0'] }), [
    'meta nfproto ipv4 accept',
    'goto refused',
  ])
  assert.deepEqual(only({ protocol: 'any', sources: ['::/0'] }), ['meta nfproto ipv6 accept', 'goto refused'])
})

test('icmp is the one of the family', () => {
  assert.deepEqual(only({ protocol: 'icmp' }), [
    'meta nfproto ipv4 meta l4proto icmp accept',
    'meta nfproto ipv6 meta l4proto ipv6-icmp accept',
    'goto refused',
  ])
  assert.deepEqual(only({ protocol: 'icmp', sources: ['2001:db8::/32'] }), [
    'ip6 saddr 2001:db8::/32 meta l4proto ipv6-icmp accept',
    'goto refused',
  ])
})

test('several sources and several ports add up: the ports have a chain before that of the guest', () => {
  const ports = [
    { first: 22, last: 22 },
    { first: 80, last: 80 },
  ]
  const sources = ['192.0.2.0/24', '198.51.100.0/24', '2001:db8::/32']
  assert.deepEqual(inboundChains({ ...guest, inbound: [{ protocol: 'tcp', ports, sources }] }), [
    { name: 'to_vmt1_1', rules: ['tcp dport 22 accept', 'tcp dport 80 accept'] },
    {
      name: 'to_vmt1',
      rules: [
        'ip saddr 192.0.2.0/24 jump to_vmt1_1',
        'ip saddr 198.51.100.0/24 jump to_vmt1_1',
        'ip6 saddr 2001:db8::/32 tcp dport 22 accept',
        'ip6 saddr 2001:db8::/32 tcp dport 80 accept',
        'goto refused',
      ],
    },
  ])
})
