import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseGuestAddress, parseGuestPrefix, parseNameServer } from './guest-address.ts'
import type { AddressFamily } from './guest-address.ts'

const reason = (family: AddressFamily, text: string): string => {
  const result = parseGuestAddress(family, text)
  return result.ok ? assert.fail(`${text} was taken`) : result.error
}

test('a unicast address is taken and made canonical', () => {
  assert.deepEqual(parseGuestAddress('ipv4', '192.0.2.10'), { ok: true, value: '192.0.2.10' })
  assert.deepEqual(parseGuestAddress('ipv4', '10.0.0.0'), { ok: true, value: '10.0.0.0' })
  assert.deepEqual(parseGuestAddress('ipv6', '2001:DB8:0::10'), { ok: true, value: '2001:db8::10' })
  assert.deepEqual(parseGuestAddress('ipv6', 'fd00::1'), { ok: true, value: 'fd00::1' })
})

test('an address of the other family is not an address of this one', () => {
  assert.equal(reason('ipv4', '2001:db8::10'), 'is not an IPv4 address')
  assert.equal(reason('ipv6', '192.0.2.10'), 'is not an IPv6 address')
  assert.equal(reason('ipv4', 'web-1'), 'is not an IPv4 address')
})

test('an address that cannot be a guest is refused with the reason', () => {
  const cases: [AddressFamily, string, RegExp][] = [
    ['ipv4', '0.0.0.0', /this network/],
    ['ipv4', '0.1.2.3', /this network/],
    ['ipv4', '127.0.0.1', /loopback/],
    ['ipv4', '169.254.0.1', /link-local/],
    ['ipv4', '169.254.255.255', /link-local/],
    ['ipv4', '224.0.0.1', /multicast/],
    ['ipv4', '239.255.255.255', /multicast/],
    ['ipv4', '240.0.0.1', /reserved/],
    ['ipv4', '255.255.255.255', /reserved/],
    ['ipv6', '::', /unspecified/],
    ['ipv6', '::1', /loopback/],
    ['ipv6', '::192.0.2.1', /IPv4-compatible/],
    ['ipv6', '::ffff:192.0.2.1', /IPv4-mapped/],
    ['ipv6', 'fe80::1', /link-local/],
    ['ipv6', 'febf:ffff::1', /link-local/],
    ['ipv6', 'ff02::1', /multicast/],
    ['ipv4', '100.100.100.200', /^is in 100\.100\.100\.200\/32, which is closed to guests$/],
    ['ipv4', '168.63.129.16', /closed to guests/],
    ['ipv4', '192.0.0.192', /closed to guests/],
    ['ipv6', 'fd00:ec2::254', /^is in fd00:ec2::\/32, which is closed to guests$/],
    ['ipv6', 'fd20:ce::254', /closed to guests/],
    ['ipv6', 'fd00:c1::a9fe:a9fe', /closed to guests/],
    ['ipv6', 'fd00:100::100:200', /closed to guests/],
    ['ipv6', 'fd00:42::42', /closed to guests/],
    ['ipv6', 'fd00:a9fe:a9fe::1', /closed to guests/],
    ['ipv6', '64:ff9b::a9fe:a9fe', /closed to guests/],
  ]
  for (const [family, text, why] of cases) assert.match(reason(family, text), why, text)
})

test('the neighbours of refused ranges are taken', () => {
  for (const text of [
    '1.0.0.0',
    '126.255.255.255',
    '128.0.0.0',
    '169.253.255.255',
    '169.255.0.0',
    '223.255.255.255',
    '100.100.100.199',
    '100.100.100.201',
  ]) {
    assert.equal(parseGuestAddress('ipv4', text).ok, true, text)
  }
  for (const text of ['fec0::1', 'fe7f::1', 'feff::1', '::1:0:0:1', 'fd00:ec1:ffff::1', 'fd00:ec3::1']) {
    assert.equal(parseGuestAddress('ipv6', text).ok, true, text)
  }
})

test('a name server is one that guests can reach: not a closed address, but for the gateway', () => {
  assert.deepEqual(parseNameServer('169.254.0.1'), { ok: true, value: '169.254.0.1' })
  assert.deepEqual(parseNameServer('2001:DB8::53'), { ok: true, value: '2001:db8::53' })
  const refused: readonly (readonly [string, RegExp])[] = [
    ['169.254.169.253', /link-local/],
    ['168.63.129.16', /^is in 168\.63\.129\.16\/32, which is closed to guests$/],
    ['fd00:ec2::253', /closed to guests/],
    ['127.0.0.53', /loopback/],
    ['fe80::1', /link-local/],
    ['dns.example', /^is not an address: give the address of the name server, not a name$/],
    ['192.0.2', /^is not an address/],
    ['2001:db8::x', /^is not an address/],
  ]
  for (const [text, words] of refused) {
    const parsed = parseNameServer(text)
    assert.match(parsed.ok ? 'taken' : parsed.error, words, text)
  }
})

test('a prefix of a guest is an IPv6 network of 48 to 127 bits that holds no address which guests cannot have', () => {
  for (const [text, canonical] of [
    ['2001:0DB8:1:42::/64', '2001:db8:1:42::/64'],
    ['2001:db8:1::/48', '2001:db8:1::/48'],
    ['fd00:1:2::4/127', 'fd00:1:2::4/127'],
    ['64:ff9b::6440:0/112', '64:ff9b::6440:0/112'],
  ] as const)
    assert.deepEqual(parseGuestPrefix(text), { ok: true, value: canonical })
  const refused: readonly (readonly [string, RegExp])[] = [
    ['2001:db8:1::', /^is not a network in CIDR form/],
    ['192.0.2.0/24', /^is not an IPv6 network/],
    ['2001:db8:1::1/64', /^has bits set after its prefix; the network is 2001:db8:1::\/64$/],
    ['2001:db8::/47', /^must have a length from 48 to 127$/],
    ['2001:db8::5/128', /^must have a length/],
    ['fe80::/64', /^overlaps link-local/],
    ['ff02::/64', /^overlaps multicast/],
    ['::/48', /^overlaps the unspecified address$/],
    ['::ffff:0:0/96', /^overlaps an IPv4-mapped address/],
    ['fd00:ec2::/64', /^overlaps fd00:ec2::\/32, which is closed to guests$/],
    ['64:ff9b::/96', /which is closed to guests$/],
  ]
  for (const [text, words] of refused) {
    const parsed = parseGuestPrefix(text)
    assert.match(parsed.ok ? 'taken' : parsed.error, words, text)
  }
})
