import assert from 'node:assert/strict'
import { test } from 'node:test'
import { prefixOfChain } from './guest-rule.ts'
import { compileRuleset } from './ruleset.ts'
import type { DeviceName, MacAddress } from '../ids.ts'
import type { GuestRule } from '../world/network-state.ts'

const closed = {
  guestToGuest: false,
  inboundDefault: 'accept',
  hostServices: [],
  masquerade: [],
  connectionsMax: 1000,
} as const
const both: GuestRule = {
  device: 'vmt100001' as DeviceName,
  macAddress: '02:76:00:01:86:a1' as MacAddress,
  ipv4Address: '192.0.2.10',
  ipv6Address: '2001:db8::10',
}
const ipv4Only: GuestRule = {
  device: 'vmt100002' as DeviceName,
  macAddress: '02:76:00:01:86:a2' as MacAddress,
  ipv4Address: '192.0.2.11',
}

/** Returns one chain or set of a table, without its indentation. */
function block(ruleset: string, head: string): string[] {
  const text = new RegExp(`^  ${head} \\{\n((?:    .*\n)*)  \\}$`, 'm').exec(ruleset)?.[1]
  return (text ?? assert.fail(`no ${head} in ${ruleset}`))
    .trimEnd()
    .split('\n')
    .map((line) => line.trim())
}

test('the table is replaced as a whole, and no other is named', () => {
  const ruleset = compileRuleset(closed, [both])
  assert.match(ruleset, /^table inet vmhostd\ndelete table inet vmhostd\ntable inet vmhostd \{\n/)
  const tables = [...ruleset.matchAll(/\btable (\w+ \w+)/g)].map((match) => match[1])
  assert.deepEqual(new Set(tables), new Set(['inet vmhostd']))
})

test('each guest stands in the sets of the addresses that it has', () => {
  const ruleset = compileRuleset(closed, [both, ipv4Only])
  assert.deepEqual(block(ruleset, 'set guest_mac'), [
    'type ifname . ether_addr',
    'elements = { "vmt100001" . 02:76:00:01:86:a1, "vmt100002" . 02:76:00:01:86:a2 }',
  ])
  assert.deepEqual(block(ruleset, 'set guest_ipv4'), [
    'type ifname . ipv4_addr',
    'elements = { "vmt100001" . 192.0.2.10, "vmt100002" . 192.0.2.11 }',
  ])
  assert.deepEqual(block(ruleset, 'set guest_ipv6'), [
    'type ifname . ipv6_addr',
    'elements = { "vmt100001" . 2001:db8::10 }',
  ])
})

test('the rules are the same for every number of guests', () => {
  const chains = (ruleset: string): string => ruleset.slice(ruleset.indexOf('set discovery_rate'))
  assert.equal(chains(compileRuleset(closed, [])), chains(compileRuleset(closed, [both, ipv4Only])))
})

test('a packet of a guest is judged before connection tracking: its hardware address, its address, then discovery', () => {
  const ruleset = compileRuleset(closed, [])
  assert.deepEqual(block(ruleset, 'chain anti_spoofing'), [
    'type filter hook prerouting priority -450; policy accept;',
    'iifname "vmt*" jump from_guest',
  ])
  assert.deepEqual(block(ruleset, 'chain from_guest'), [
    'iifname . ether saddr != @guest_mac update @spoofed_drops { iifname counter } counter drop comment "not the MAC address of the guest"',
    'iifname . ip saddr @guest_ipv4 goto guest_destination',
    'iifname . ip6 saddr @guest_ipv6 goto guest_destination',
    'iifname vmap @prefix',
    'goto other_source',
  ])
  assert.deepEqual(block(ruleset, 'chain other_source'), [
    'ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 saddr { ::, fe80::/10 } goto discovery',
    'ip6 saddr { ::, fe80::/10 } counter drop comment "from a link-local address"',
    'ip saddr 0.0.0.0 counter drop comment "from no address"',
    'update @spoofed_drops { iifname counter } counter drop comment "not an address of the guest"',
  ])
})

test('addresses of a prefix are honest sources too, and neighbour discovery from them is bounded', () => {
  const guest = { ...both, ipv6Prefix: '2001:db8:1::/64' }
  const ruleset = compileRuleset(closed, [guest, ipv4Only])
  const chain = 'prefix_vmt100001_2001.db8.1../64'
  assert.deepEqual(block(ruleset, 'map prefix'), [
    'type ifname : verdict',
    `elements = { "vmt100001" : goto ${chain} }`,
  ])
  assert.deepEqual(block(ruleset, `chain ${chain}`), [
    'ip6 saddr 2001:db8:1::/64 goto from_prefix',
    'goto other_source',
  ])
  assert.deepEqual(block(ruleset, 'chain from_prefix'), [
    'icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } jump discovery',
    'goto guest_destination',
  ])
  assert.equal(prefixOfChain(chain), guest.ipv6Prefix)
})

test('a guest sends to no link-local address but its gateway, and to no metadata service', () => {
  assert.deepEqual(block(compileRuleset(closed, []), 'chain guest_destination').slice(2), [
    'ip daddr 169.254.0.1 return',
    'ip6 daddr fe80::1 return',
    'ip daddr { 169.254.0.0/16, 168.63.129.16/32, 100.100.100.200/32, 192.0.0.192/32 } counter drop comment "to a closed IPv4 address"',
    'ip6 daddr { fe80::/10, fd00:ec2::/32, fd20:ce::/32, fd00:c1::a9fe:a9fe/128, fd00:100::100:200/128, fd00:42::42/128, fd00:a9fe:a9fe::1/128, 64:ff9b::169.254.0.0/112, 64:ff9b::168.63.129.16/128, 64:ff9b::100.100.100.200/128, 64:ff9b::192.0.0.192/128 } counter drop comment "to a closed IPv6 address"',
  ])
})

test('the rate of fragments of a guest is bounded, to whatever address they go', () => {
  const ruleset = compileRuleset(closed, [])
  assert.deepEqual(block(ruleset, 'chain guest_destination').slice(0, 2), [
    'ip frag-off & 0x3fff != 0 jump guest_fragment',
    'exthdr frag exists jump guest_fragment',
  ])
  assert.deepEqual(block(ruleset, 'chain guest_fragment'), [
    'update @fragment_rate { iifname limit rate over 2000/second burst 2000 packets } counter drop comment "too many fragments"',
  ])
})

test('what a guest opens to an address of the host is judged before another table can redirect it', () => {
  const ruleset = compileRuleset(closed, [])
  assert.deepEqual(block(ruleset, 'chain before_redirects'), [
    'type filter hook prerouting priority mangle; policy accept;',
    'iifname "vmt*" jump guest_opens',
  ])
  assert.deepEqual(block(ruleset, 'chain guest_opens'), [
    'ct state established,related return',
    'fib daddr type { local, broadcast, anycast } jump guest_to_host',
    'ct state new jump forget_when_ended',
    'ct state new add @connections_out { iifname ct count over 1000 } counter drop comment "over the bound of connections_out"',
  ])
})

test('a connection that is let in counts as open to its guest, after all else was judged', () => {
  const ruleset = compileRuleset(closed, [])
  assert.deepEqual(block(ruleset, 'chain passed'), [
    'type filter hook forward priority filter + 10; policy accept;',
    'oifname "vmt*" ct state new goto passed_to_guest',
    'iifname "vmt*" oifname != "vmt*" goto passed_from_guest',
  ])
  assert.deepEqual(block(ruleset, 'chain passed_to_guest'), [
    'jump forget_when_ended',
    'ct state new add @connections_in { oifname ct count over 1000 } counter drop comment "over the bound of connections_in"',
  ])
})

test('the host looks for few neighbours because of one guest, and a hop counts once while it is looked for', () => {
  const ruleset = compileRuleset(closed, [])
  assert.deepEqual(block(ruleset, 'chain passed_from_guest'), [
    'ct state established,related return',
    'iifname . rt ip nexthop @next_hops_ipv4 return',
    'iifname . rt ip6 nexthop @next_hops_ipv6 return',
    'update @next_hop_rate { iifname limit rate over 20/second burst 100 packets } counter drop comment "too many next hops"',
    'add @next_hops_ipv4 { iifname . rt ip nexthop }',
    'add @next_hops_ipv6 { iifname . rt ip6 nexthop }',
  ])
  for (const family of ['ipv4', 'ipv6'])
    assert.deepEqual(block(ruleset, `set next_hops_${family}`), [
      `type ifname . ${family}_addr`,
      'size 65535',
      'flags dynamic,timeout',
      'timeout 3s',
    ])
})

test('an ended TCP connection of a guest is forgotten soon, over each family', () => {
  const ruleset = compileRuleset(closed, [])
  assert.deepEqual(block(ruleset, 'chain forget_when_ended'), [
    'meta nfproto ipv4 meta l4proto tcp ct timeout set "ended_ipv4"',
    'meta nfproto ipv6 meta l4proto tcp ct timeout set "ended_ipv6"',
  ])
  for (const [name, family] of [
    ['ended_ipv4', 'ip'],
    ['ended_ipv6', 'ip6'],
  ] as const) {
    assert.deepEqual(block(ruleset, `ct timeout ${name}`), [
      'protocol tcp',
      `l3proto ${family}`,
      'policy = { time_wait : 1, close : 1 }',
    ])
  }
})

test('guests are kept apart unless the operator lets them together', () => {
  const apart = 'iifname "vmt*" counter drop comment "from guest to guest"'
  assert.equal(block(compileRuleset(closed, []), 'chain to_guest')[0], apart)
  assert.ok(!compileRuleset({ ...closed, guestToGuest: true }, []).includes(apart))
})

test('replies pass to a guest; what others open is judged by the rules of the guest, or as the host says', () => {
  const chain = (inboundDefault: 'accept' | 'drop') =>
    block(compileRuleset({ ...closed, guestToGuest: true, inboundDefault }, []), 'chain to_guest')
  const judged = ['ct state established,related accept', 'oifname vmap @inbound']
  assert.deepEqual(chain('accept'), judged)
  assert.deepEqual(chain('drop'), [...judged, 'goto refused'])
  assert.deepEqual(block(compileRuleset(closed, []), 'chain to_guests'), [
    'type filter hook forward priority filter; policy accept;',
    'oifname "vmt*" goto to_guest',
  ])
  assert.deepEqual(block(compileRuleset(closed, []), 'chain refused'), [
    'update @inbound_drops { oifname counter } counter drop comment "not open to others"',
  ])
})

test('replies of a guest pass; what it opens is judged by its own rules, before those of the guest it goes to', () => {
  const ruleset = compileRuleset(closed, [
    { ...both, outbound: [{ action: 'deny', protocol: 'udp' }] },
    ipv4Only,
  ])
  assert.deepEqual(block(ruleset, 'chain from_guests'), [
    'type filter hook forward priority filter - 10; policy accept;',
    'iifname "vmt*" goto opened_by_guest',
  ])
  assert.deepEqual(block(ruleset, 'chain opened_by_guest'), [
    'ct state established,related accept',
    'iifname vmap @outbound',
  ])
  assert.deepEqual(block(ruleset, 'map outbound'), [
    'type ifname : verdict',
    'elements = { "vmt100001" : goto from_vmt100001 }',
  ])
  assert.deepEqual(block(ruleset, 'chain from_vmt100001'), ['meta l4proto udp goto denied'])
})

test('a guest with rules of its own is in the map, and has a chain if there is something to judge', () => {
  const ruleset = compileRuleset(closed, [
    { ...both, inbound: [{ protocol: 'udp' }] },
    { ...ipv4Only, inbound: [] },
  ])
  assert.deepEqual(block(ruleset, 'map inbound'), [
    'type ifname : verdict',
    'elements = { "vmt100001" : goto to_vmt100001, "vmt100002" : goto refused }',
  ])
  assert.deepEqual(block(ruleset, 'chain to_vmt100001'), ['meta l4proto udp accept', 'goto refused'])
  assert.doesNotMatch(ruleset, /chain to_vmt100002/)
  assert.deepEqual(block(compileRuleset(closed, [both]), 'map inbound'), ['type ifname : verdict'])
})

test('the counters of the guests continue, and those of others are dropped', () => {
  const drops = {
    spoofed_drops: new Map([['vmt100001', { packets: 3, bytes: 252 }]]),
    inbound_drops: new Map([['vmt100009', { packets: 1, bytes: 84 }]]),
  }
  const ruleset = compileRuleset(closed, [both, ipv4Only], drops)
  const declared = ['type ifname', 'size 65535', 'flags dynamic']
  assert.deepEqual(block(ruleset, 'set spoofed_drops'), [
    ...declared,
    'elements = { "vmt100001" counter packets 3 bytes 252 }',
  ])
  assert.deepEqual(block(ruleset, 'set inbound_drops'), declared)
})

test('a guest may find and ping its gateway, answer the host, and nothing else', () => {
  assert.deepEqual(block(compileRuleset(closed, []), 'chain guest_to_host'), [
    'ct state established ct direction reply return',
    'ct state related return',
    'ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } return',
    'ip daddr 169.254.0.1 icmp type echo-request return',
    'ip6 daddr fe80::1 icmpv6 type echo-request return',
    'counter drop comment "from guest to host"',
  ])
})

test('services that the operator offers are at the gateway only', () => {
  const hostServices = [
    { protocol: 'udp', port: 53 },
    { protocol: 'tcp', port: 853 },
  ] as const
  const chain = block(compileRuleset({ ...closed, hostServices }, []), 'chain guest_to_host')
  assert.deepEqual(chain.slice(-3, -1), [
    'ip daddr 169.254.0.1 meta l4proto . th dport { udp . 53, tcp . 853 } return',
    'ip6 daddr fe80::1 meta l4proto . th dport { udp . 53, tcp . 853 } return',
  ])
})

test('masquerading is for the families that the operator names, and for what leaves the guests', () => {
  const rule = (masquerade: readonly ('ipv4' | 'ipv6')[]): string | undefined =>
    block(compileRuleset({ ...closed, masquerade }, []), 'chain leaving')[1]
  const leaving = 'iifname "vmt*" oifname != "vmt*" masquerade'
  assert.equal(rule(['ipv4']), `meta nfproto ipv4 ${leaving}`)
  assert.equal(rule(['ipv6']), `meta nfproto ipv6 ${leaving}`)
  assert.equal(rule(['ipv6', 'ipv4']), leaving)
  assert.doesNotMatch(compileRuleset(closed, []), /masquerade|type nat/)
})
