import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sameGuestRule, canonicalInbound, sameInbound } from './inbound-rule.ts'
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
