import assert from 'node:assert/strict'
import { test } from 'node:test'
import { packetFlow } from './packet-flow.ts'

const ETHERNET = '0276000186a10276ffffffff'
const IPV4 = { source: '192.0.2.1', destination: '192.0.2.10' }
const IPV6 = { source: '2001:db8::1', destination: '2001:db8::10' }
const ports = { sourcePort: 50_412, destinationPort: 443 }
const PORTS = 'c4ec01bb00000000'

const ipv4 = (protocol: string, payload: string, fragment = '4000'): Buffer =>
  Buffer.from(`${ETHERNET}0800450000000000${fragment}40${protocol}0000c0000201c000020a${payload}`, 'hex')

const ipv6 = (next: string, payload: string): Buffer =>
  Buffer.from(
    `${ETHERNET}86dd600000000000${next}4020010db800000000000000000000000120010db8000000000000000000000010${payload}`,
    'hex',
  )

for (const [what, frame, flow] of [
  ['TCP over IPv4', ipv4('06', PORTS), { protocol: 'tcp', ...IPV4, ...ports }],
  ['UDP over IPv4', ipv4('11', PORTS), { protocol: 'udp', ...IPV4, ...ports }],
  ['ICMP', ipv4('01', '0800000000000000'), { protocol: 'icmp', ...IPV4 }],
  ['a protocol without a name', ipv4('2f', PORTS), { protocol: '47', ...IPV4 }],
  ['the first fragment', ipv4('11', PORTS, '2000'), { protocol: 'udp', ...IPV4, ...ports }],
  ['a later fragment', ipv4('11', PORTS, '2001'), { protocol: 'udp', ...IPV4 }],
  ['a packet that ends before its ports', ipv4('06', 'c4ec'), { protocol: 'tcp', ...IPV4 }],
  ['TCP over IPv6', ipv6('06', PORTS), { protocol: 'tcp', ...IPV6, ...ports }],
  ['ICMPv6', ipv6('3a', '8000000000000000'), { protocol: 'icmpv6', ...IPV6 }],
  [
    'UDP behind destination options',
    ipv6('3c', `1100000000000000${PORTS}`),
    { protocol: 'udp', ...IPV6, ...ports },
  ],
  [
    'the first fragment over IPv6',
    ipv6('2c', `1100000100000001${PORTS}`),
    { protocol: 'udp', ...IPV6, ...ports },
  ],
  ['a later fragment over IPv6', ipv6('2c', `1100000900000001${PORTS}`), { protocol: 'udp', ...IPV6 }],
] as const) {
  test(`${what} is named by its addresses, and by its ports if it has some`, () => {
    assert.deepEqual(packetFlow(frame), flow)
  })
}

test('a frame without a whole IP header has no flow, wherever it ends', () => {
  assert.equal(packetFlow(Buffer.from(`${ETHERNET}0806${'00'.repeat(28)}`, 'hex')), undefined)
  for (const frame of [ipv4('06', ''), ipv6('06', '')]) {
    for (let bytes = 0; bytes < frame.length; bytes += 1)
      assert.equal(packetFlow(frame.subarray(0, bytes)), undefined, `${bytes} bytes`)
  }
  assert.equal(packetFlow(ipv6('00', '3c00')), undefined, 'an extension is cut')
})

test('headers that never end are not followed', () => {
  assert.equal(packetFlow(ipv6('3c', '3c00000000000000'.repeat(20))), undefined)
})
