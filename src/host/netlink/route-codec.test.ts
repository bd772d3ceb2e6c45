import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as codec from './route-codec.ts'

/** Bodies as Linux 6.18 sends them. Attributes of links that are not read here are left out. */
const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(/\s/g, ''), 'hex')

const assertRequest = (request: { type: number; body: Buffer }, type: number, hex: string): void => {
  assert.equal(request.type, type)
  assert.equal(request.body.toString('hex'), bytes(hex).toString('hex'))
}

test('requests are the bytes that the kernel expects', () => {
  const link = '00'.repeat(16)
  assertRequest(codec.getLink('vmt100001'), 18, `${link} 0e000300766d74313030303031000000 08001d0008000000`)
  assertRequest(codec.dumpLinks('tun'), 18, `${link} 08001d0008000000 0c001200 0800010074756e00`)
  assertRequest(codec.getLink('lo', { statistics: true }), 18, `${link} 070003006c6f0000`)
  assertRequest(codec.newLink('q', 'ifb'), 16, `${link} 0600030071000000 0c001200 0800010069666200`)
  assert.equal(codec.newLink('q', 'ifb').flags, 0x600)
  assertRequest(codec.setLinkUp(7), 19, '00000000070000000100000001000000')
  const link7 = '00000000070000000000000000000000'
  assertRequest(
    codec.setLink(7, { macAddress: '02:76:ff:ff:ff:ff', alias: 'a' }),
    19,
    `${link7} 0a0001000276ffffffff0000 0500140061000000`,
  )
  assertRequest(codec.setLink(7, { master: 0 }), 19, `${link7} 08000a0000000000`)
  // forwarding and rp_filter, which are 1 and 8 in linux/ip.h
  assertRequest(
    codec.setLink(7, {
      ipv4Settings: [
        [0, 1],
        [7, 2],
      ],
    }),
    19,
    `${link7} 1c001a00 18000200 14000100 0800010001000000 0800080002000000`,
  )
  assertRequest(codec.dumpAddresses(7), 22, '0000000007000000')
  assertRequest(codec.dumpRoutes(codec.AF_INET, 7), 26, '02000000fe00000000000000 0800040007000000')
  assertRequest(codec.dumpRoutes(codec.AF_INET6, 7), 26, '0a000000fe00000000000000 0800040007000000')
  assertRequest(codec.dumpUnicastRoutes(codec.AF_INET), 26, '020000000000000100000000')
  assertRequest(codec.dumpNeighbours(7), 30, '000000000000000000000000 0800080007000000')
})

test('a tap shows its owner, its group, its hardware address and its alias', () => {
  const body = bytes(
    `00000100 02000000 03100000 00000000
     0e000300 766d74313030303031000000 0500210001000000 08000600 74626600
     1a001400 766d686f7374643a73746f72652d313a7765622d31000000
     0a000100 0276ffffffff0000
     48001200 08000100 74756e00
       3c000200 0500030002000000 08000100a1860100 0800020007000000 0500040000000000 0500050000000000 0500060001000000 0500070000000000`,
  )
  assert.deepEqual(codec.decodeLink(body), {
    index: 2,
    name: 'vmt100001',
    up: true,
    carrier: true,
    qdisc: 'tbf',
    alias: 'vmhostd:store-1:web-1',
    macAddress: '02:76:ff:ff:ff:ff',
    kind: 'tun',
    tap: { owner: 100_001, group: 7 },
  })
})

test('a tun device in tun mode is not a tap', () => {
  const body = bytes(`
    0000feff 03000000 90100000 00000000
    07000300 74330000
    38001200 08000100 74756e00
    2c000200 0500030001000000 0500040000000000 0500050000000000 0500060001000000 0500070000000000
  `)
  assert.deepEqual(codec.decodeLink(body), {
    index: 3,
    name: 't3',
    up: false,
    carrier: false,
    qdisc: '',
    kind: 'tun',
  })
})

test('a tap that any user may attach to has no owner', () => {
  const body = bytes(
    '00000100 03000000 02100000 00000000 07000300 74330000 18001200 08000100 74756e00 0c000200 0500030002000000',
  )
  assert.deepEqual(codec.decodeLink(body).tap, {})
})

test('a link that is a member of another one shows the number of that one', () => {
  const body = bytes('00000100 03000000 02100000 00000000 07000300 74330000 08000a0007000000')
  assert.equal(codec.decodeLink(body).master, 7)
})

test('a device of another driver, or of none, is not a tap', () => {
  const veth = bytes(
    '00000100 05000000 02100000 00000000 07000300 76300000 10001200 09000100 7665746800000000',
  )
  assert.deepEqual(codec.decodeLink(veth), {
    index: 5,
    name: 'v0',
    up: false,
    carrier: false,
    qdisc: '',
    kind: 'veth',
  })
  const hardware = bytes('00000100 05000000 43100100 00000000 09000300 6574683000000000')
  assert.deepEqual(codec.decodeLink(hardware), {
    index: 5,
    name: 'eth0',
    up: true,
    carrier: false,
    qdisc: '',
  })
})

test('the statistics of a link are counted from the side of the host', () => {
  const places = Array.from({ length: 8 }, (_, place) => `0${place + 1}00000000000000`).join('')
  const body = bytes(`00000100 02000000 03100000 00000000 44001700 ${places}`)
  assert.deepEqual(codec.decodeStatistics(body), {
    receivedPackets: 1,
    transmittedPackets: 2,
    receivedBytes: 3,
    transmittedBytes: 4,
    transmitDroppedPackets: 8,
  })
})

test('addresses have their prefix length, and the local address is read if there is a peer', () => {
  const ipv4 = '022080fd02000000 08000100a9fe0001 08000200a9fe0001 0e000300766d74313030303031000000'
  assert.equal(codec.decodeAddress(bytes(ipv4)), '169.254.0.1/32')
  const ipv6 = '0a4080fd02000000 14000100fe800000000000000000000000000001 0800080082000000'
  assert.equal(codec.decodeAddress(bytes(ipv6)), 'fe80::1/64')
  const peer = '0220000002000000 08000100c0000263 08000200c0000201'
  assert.equal(codec.decodeAddress(bytes(peer)), '192.0.2.1/32')
})

test('a route is decoded to its destination and its router, also the default route', () => {
  const host = '02200000fe03fd0110000000 08000f00fe000000 08000100c000020a 0800040002000000'
  assert.equal(codec.decodeRoute(bytes(host)), '192.0.2.10/32')
  const ipv6 =
    '0a800000fe03000110000000 08000f00fe000000 1400010020010db8000000000000000000000010 0800040002000000'
  assert.equal(codec.decodeRoute(bytes(ipv6)), '2001:db8::10/128')
  assert.equal(
    codec.decodeRoute(bytes('02000000fe03fd0110000000 08000f00fe000000 0800040002000000')),
    '0.0.0.0/0',
  )
  assert.equal(codec.decodeRoute(bytes('0a000000fe03fd0110000000 08000f00fe000000 0800040002000000')), '::/0')
  const routed =
    '0a400000fe03000100000000 08000f00fe000000 1400010020010db8000100000000000000000000 1400050020010db8000000000000000000000010 0800040002000000'
  assert.equal(codec.decodeRoute(bytes(routed)), '2001:db8:1::/64 via 2001:db8::10')
})

test('the routers of a route are read, whatever form it has', () => {
  const header = '02000000fe03000100000000'
  const nextHops = (attributes: string): readonly string[] =>
    codec.decodeNextHops(bytes(`${header} ${attributes}`))
  assert.deepEqual(nextHops('08000400 07000000'), [], 'on the link')
  assert.deepEqual(nextHops('08000500 cb007101 08000400 07000000'), ['203.0.113.1'])
  assert.deepEqual(nextHops('16001200 0a00 20010db8000000000000000000000001 0000'), ['2001:db8::1'])
  const ways = '10000000 07000000 08000500 cb007101 10000000 08000000 08000500 cb007102'
  assert.deepEqual(nextHops(`24000900 ${ways}`), ['203.0.113.1', '203.0.113.2'])
  assert.throws(() => nextHops('0c000900 40000000 07000000'), RangeError)
  assert.throws(() => nextHops('0c000900 00000000 07000000'), RangeError, 'a length that would never end')
})

test('an address is decoded with the broadcast address of its network, if that has one', () => {
  const address = '02188000 07000000 08000100 cb007101 08000200 cb007101'
  const both = codec.decodeWithBroadcast(bytes(`${address} 08000400 cb0071ff`))
  assert.deepEqual(both, ['203.0.113.1', '203.0.113.255'])
  assert.deepEqual(codec.decodeWithBroadcast(bytes(address)), ['203.0.113.1'])
})

test('only permanent neighbours count', () => {
  const permanent = '0200000002000000 80000001 08000100c000020a 0a0002000276000186a10000 0800040000000000'
  assert.deepEqual(codec.decodePermanentNeighbour(bytes(permanent)), {
    address: '192.0.2.10',
    macAddress: '02:76:00:01:86:a1',
  })
  const stale = '0200000002000000 04000001 08000100c000020b 0a0002000276000186a10000 0800040000000000'
  assert.equal(codec.decodePermanentNeighbour(bytes(stale)), undefined)
  const multicast =
    '0a00000002000000 40000005 14000100ff020000000000000000000000000016 0a000200333300000016000008000400 00000000'
  assert.equal(codec.decodePermanentNeighbour(bytes(multicast)), undefined)
})
