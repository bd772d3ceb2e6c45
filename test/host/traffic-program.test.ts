import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { NOTHING_IGNORED } from '../../src/host/ebpf/ignored-traffic.ts'
import { TrafficProgram } from '../../src/host/ebpf/traffic-program.ts'
import { ethernet, ETHERTYPE, extension, icmp, IP, ipv4, ipv6, ipv6Fragment, tcp, udp } from './packets.ts'
import { bpfDirectory, OBJECT, setStage, userId, Wire } from './program-stage.ts'

const byTcp = (...flags: ('syn' | 'rst' | 'ack')[]) => ({ protocol: IP.tcp, payload: tcp(flags) })
const byIcmp = (type: number) => ({ protocol: IP.icmp, payload: icmp(type) })
const byIcmpv6 = (type: number) => ({ protocol: IP.icmpv6, payload: icmp(type) })
const fragmentedReset = (offset: number) => ({
  protocol: IP.fragment,
  payload: ipv6Fragment(IP.tcp, offset, tcp(['rst'])),
})
const RESET: { readonly next: number; readonly payload: Uint8Array } = { next: IP.tcp, payload: tcp(['rst']) }
const behind = (...headers: number[]) => ({
  protocol: headers[0] ?? IP.udp,
  payload: headers.reduceRight(
    ({ next, payload }, header) => ({ next: header, payload: extension(next, payload, 1) }),
    RESET,
  ).payload,
})
const many = (count: number) => Array.from({ length: count }, () => IP.options)

const COUNTING = {
  'TCP over IPv4': ipv4(byTcp('syn')),
  'TCP over IPv6': ipv6(byTcp('syn')),
  'a TCP acknowledgement': ipv4(byTcp('ack')),
  'UDP over IPv4': ipv4({}),
  'UDP over IPv6': ipv6({}),
  'SCTP over IPv4': ipv4({ protocol: IP.sctp, payload: Buffer.alloc(12) }),
  'an ICMP echo': ipv4(byIcmp(8)),
  'an ICMPv6 echo': ipv6(byIcmpv6(128)),
  'an ICMP echo reply': ipv4(byIcmp(0)),
  'the first fragment of IPv4': ipv4({ moreFragments: true }),
  'a later fragment of IPv4, whatever is at its start': ipv4({ ...byTcp('rst'), fragmentOffset: 3 }),
  'a fragment of IPv4 far behind': ipv4({ ...byTcp('rst'), fragmentOffset: 256 }),
  'a later fragment of IPv6, whatever is at its start': ipv6(fragmentedReset(3)),
  'a fragment of IPv6 far behind': ipv6(fragmentedReset(32)),
  'IPv6 with more headers than are looked through': ipv6(behind(...many(7))),
} as const

const QUIET = {
  'a TCP reset over IPv4': ipv4(byTcp('rst')),
  'a TCP reset over IPv6': ipv6(byTcp('rst', 'ack')),
  'a TCP reset behind options and a routing header of IPv6': ipv6(behind(IP.options, IP.routing)),
  'a TCP reset in the first fragment of IPv6': ipv6(fragmentedReset(0)),
  'ICMP destination unreachable': ipv4(byIcmp(3)),
  'ICMP source quench': ipv4(byIcmp(4)),
  'an ICMP redirect': ipv4(byIcmp(5)),
  'ICMP time exceeded': ipv4(byIcmp(11)),
  'an ICMP parameter problem': ipv4(byIcmp(12)),
  'ICMPv6 destination unreachable': ipv6(byIcmpv6(1)),
  'ICMPv6 packet too big': ipv6(byIcmpv6(2)),
  'ICMPv6 time exceeded': ipv6(byIcmpv6(3)),
  'an ICMPv6 parameter problem': ipv6(byIcmpv6(4)),
  'a router advertisement to the guest alone': ipv6(byIcmpv6(134)),
  'a neighbour solicitation to the guest alone': ipv6(byIcmpv6(135)),
  'a neighbour advertisement': ipv6(byIcmpv6(136)),
  'an ICMPv6 redirect': ipv6(byIcmpv6(137)),
  'IPv4 that ends within its header': ethernet(ETHERTYPE.ipv4, Buffer.from([0x45, 0, 0, 20])),
  'TCP that ends before its flags': ipv4({ protocol: IP.tcp, payload: Buffer.alloc(8) }),
} as const

const BROADCAST = 'ff:ff:ff:ff:ff:ff'
const OTHER = {
  'an ARP question': ethernet(ETHERTYPE.arp, Buffer.alloc(28), BROADCAST),
  'an ARP question to the guest alone': ethernet(ETHERTYPE.arp, Buffer.alloc(28)),
  'a neighbour solicitation': ipv6({
    ...byIcmpv6(135),
    destination: 'ff02::1:ff00:10',
    mac: '33:33:ff:00:00:10',
  }),
  'an IPv4 broadcast': ipv4({ destination: '255.255.255.255', mac: BROADCAST }),
  'a broadcast of a network': ipv4({ destination: '192.0.2.255', mac: BROADCAST }),
  'an IPv4 multicast': ipv4({ destination: '224.0.0.251', mac: '01:00:5e:00:00:fb' }),
  'an IPv6 multicast': ipv6({ destination: 'ff02::fb', mac: '33:33:00:00:00:fb' }),
  "a multicast to the guest's own hardware address": ipv6({ destination: 'ff02::fb' }),
  'another protocol': ethernet(ETHERTYPE.lldp, Buffer.alloc(46)),
  'IPv4 in a VLAN': ethernet(ETHERTYPE.vlan, Buffer.from('00640800', 'hex')),
} as const

/** Everything that is recorded about a guest, without the frames. */
function each(frames: Readonly<Record<string, Buffer>>, check: (frame: Buffer, name: string) => void): void {
  for (const [name, frame] of Object.entries(frames)) check(frame, name)
}

test(
  'while frames flow all of them pass, and unicast IP counts that somebody sent on purpose',
  { skip },
  async (t) => {
    const { send, counted, program, events } = await setStage(t)
    const countsBy = (frame: Buffer): number => {
      const before = counted()
      assert.equal(send(frame), 'passed')
      return counted() - before
    }
    each(COUNTING, (frame, name) => assert.equal(countsBy(frame), 1, name))
    const { lastNs } = program.activity(userId) ?? assert.fail()
    each({ ...QUIET, ...OTHER }, (frame, name) => assert.equal(countsBy(frame), 0, name))
    assert.equal(program.activity(userId)?.lastNs, lastNs)
    assert.deepEqual(events(), [])
  },
)

test('traffic that counts is held without an error to its sender, and is counted', { skip }, async (t) => {
  const { send, hold, counted, events, program, wire } = await setStage(t)
  each(COUNTING, (frame, name) => {
    hold()
    const before = { counted: counted(), ns: process.hrtime.bigint() }
    assert.equal(send(frame), 'held', name)
    assert.equal(counted(), before.counted + 1)
    const [event, ...others] = events()
    assert.ok(event !== undefined && others.length === 0)
    assert.deepEqual(Buffer.from(event.frame), frame)
    assert.deepEqual(
      { ...event, atNs: 0n, frame: undefined },
      {
        userId,
        ifindex: wire.ifindex,
        atNs: 0n,
        gsoSize: 0,
        counts: true,
        frame: undefined,
      },
    )
    assert.ok(event.atNs > before.ns && event.atNs < process.hrtime.bigint())
    assert.equal(program.held(wire.ifindex)?.wantedAtNs, event.atNs)
  })
})

test(
  'traffic that does not count wakes no guest, and is held behind traffic that does',
  { skip },
  async (t) => {
    const { send, hold, counted, events, program, wire } = await setStage(t)
    each(QUIET, (frame, name) => {
      hold()
      assert.equal(send(frame), 'dropped', name)
      assert.deepEqual(program.held(wire.ifindex), { frames: 0, bytes: 0, droppedFrames: 0 })
      assert.equal(send(ipv4({})), 'held')
      const before = counted()
      assert.equal(send(frame), 'held', name)
      assert.equal(counted(), before)
      assert.deepEqual(
        events().map(({ counts }) => counts),
        [true, false],
      )
    })
  },
)

test('frames that are not unicast IP are not held', { skip }, async (t) => {
  const { send, hold, events, program, wire } = await setStage(t)
  hold()
  each(OTHER, (frame, name) => assert.equal(send(frame), 'dropped', name))
  assert.equal(program.held(wire.ifindex)?.wantedAtNs, undefined)
  assert.equal(send(ipv4({})), 'held')
  each(OTHER, (frame, name) => assert.equal(send(frame), 'dropped', name))
  assert.equal(events().length, 1)
  assert.equal(program.held(wire.ifindex)?.droppedFrames, 0)
})

test(
  'traffic that the host is configured to ignore does not count, and nothing else is ignored',
  { skip },
  async (t) => {
    const { send, counted } = await setStage(t, {
      ignoreSources: ['203.0.113.53/32', '198.51.100.0/24', '2001:db8:53::/48'],
      ignorePortsTcp: [8080],
      ignorePortsUdp: [9100],
      ignoreMark: 0x10,
      ignoreMarkMask: 0xf0,
    })
    const counts = (frame: Buffer, mark = 0): boolean => {
      const before = counted()
      assert.equal(send(frame, { mark }), 'passed')
      return counted() > before
    }
    const to = (protocol: 'tcp' | 'udp', port: number) => ({
      protocol: IP[protocol],
      payload: protocol === 'tcp' ? tcp(['syn'], port) : udp(port),
    })
    const judged = {
      ignoredSource: counts(ipv4({ source: '203.0.113.53' })),
      otherSource: counts(ipv4({ source: '203.0.113.54' })),
      ignoredNetwork: counts(ipv4({ source: '198.51.100.255' })),
      ignoredIpv6: counts(ipv6({ source: '2001:db8:53:ffff::1' })),
      otherIpv6: counts(ipv6({ source: '2001:db8:54::1' })),
      ignoredTcpPort: counts(ipv4(to('tcp', 8080))),
      ignoredTcpPortOverIpv6: counts(ipv6(to('tcp', 8080))),
      otherTcpPort: counts(ipv4(to('tcp', 8081))),
      samePortOfUdp: counts(ipv4(to('udp', 8080))),
      ignoredUdpPort: counts(ipv6(to('udp', 9100))),
      ignoredMark: counts(ipv4({}), 0xa1f),
      otherMark: counts(ipv4({}), 0xa2f),
    }
    assert.deepEqual(
      Object.entries(judged).flatMap(([name, does]) => (does ? [name] : [])),
      ['otherSource', 'otherIpv6', 'otherTcpPort', 'samePortOfUdp', 'otherMark'],
    )
  },
)

test('traffic that is no longer ignored counts again', { skip }, async (t) => {
  const directory = bpfDirectory()
  const wire = await Wire.make(t)
  const start = async (ignorePortsUdp: readonly number[]): Promise<TrafficProgram> => {
    const ignored = { ...NOTHING_IGNORED, ignorePortsUdp }
    const program = new TrafficProgram({ object: () => readFileSync(OBJECT), directory, ignored })
    await program.attach(wire.ifindex)
    program.setGuest(wire.ifindex, { userId, frames: 'flowing' })
    return program
  }
  const { send } = await setStage(t)
  await start([53])
  send(ipv4({ payload: udp(53) }), { on: wire })
  assert.equal((await start([54])).activity(userId), undefined)
  send(ipv4({ payload: udp(53) }), { on: wire })
  assert.equal((await start([])).activity(userId)?.packets, 1)
})
