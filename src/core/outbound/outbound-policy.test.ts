import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SignedUrl } from './signed-url.ts'
import { checkRedirect, checkUrl, refusedAddress, refusedUrl } from './outbound-policy.ts'
import type { OutboundPolicy } from './outbound-policy.ts'

const strict: OutboundPolicy = { allowHttp: false, allowedHosts: [], allowedNetworks: [], guestRanges: [] }
const open: OutboundPolicy = { ...strict, allowHttp: true }

const hosted = (...allowedHosts: string[]): OutboundPolicy => ({ ...strict, allowedHosts })

const allows = (url: string, policy: OutboundPolicy): boolean => checkUrl(url, policy).ok

/** Returns why a URL is refused. */
function refusal(url: string, policy: OutboundPolicy = strict): string {
  const checked = checkUrl(url, policy)
  assert.ok(!checked.ok, `${url} is allowed`)
  assert.doesNotMatch(checked.error, /secret/)
  return checked.error
}

test('URLs are https:, and http: if that is allowed, and nothing else', () => {
  const url = checkUrl('https://store.example/bucket/key?X-Signature=secret', strict)
  assert.equal(url.ok && url.value.pathname, '/bucket/key')
  assert.match(refusal('http://store.example/key?X-Signature=secret'), /http:, which is not allowed/)
  assert.ok(allows('http://store.example/key', open))
  for (const other of [
    'file:///etc/shadow',
    'ftp://store.example/secret',
    'data:,secret',
    'gopher://store.example',
  ]) {
    assert.match(refusal(other, open), /scheme other than https:/)
  }
  for (const none of [
    '',
    '/bucket/secret',
    'store.example/secret',
    'https://',
    'https://a b/secret',
    'https://[::1/',
  ]) {
    assert.match(refusal(none, open), /not an absolute URL/)
  }
})

test('a host that no name in DNS can have is refused, in a URL and in a redirect, and not repeated', () => {
  const long = `https://${'secret-'.repeat(40)}.example/`
  assert.match(refusal(long), /^names a host of more than 253 characters$/)
  const redirect = checkRedirect(new URL('https://store.example/'), long, strict)
  assert.ok(!redirect.ok)
  assert.match(redirect.error, /more than 253/)
  assert.ok(allows(`https://${'a'.repeat(245)}.example/`, strict))
})

test('an allow-list names hosts as they are, or with "*." all below a name and not the name itself', () => {
  const policy = hosted('store.example', '*.images.example')
  for (const url of [
    'https://store.example/k',
    'https://STORE.Example/k',
    'https://store.example./k',
    'https://store.example:8443/k',
    'https://user:password@store.example/k',
    'https://a.images.example/k',
    'https://b.a.images.example/k',
  ]) {
    assert.ok(allows(url, policy), url)
  }
  for (const url of [
    'https://example/k',
    'https://a.store.example/k',
    'https://store.example.evil.example/k',
    'https://evil-store.example/k',
    'https://images.example/k',
    'https://evilimages.example/k',
    'https://store.example@evil.example/k',
    'https://store.example:443@evil.example/k',
    'https://evil.example/store.example',
    'https://evil.example?store.example',
    'https://evil.example#store.example',
    'https://evil.example\\@store.example/k',
    'https://store.example../k',
    'https://198.51.100.7/k',
  ]) {
    assert.match(refusal(url, policy), /not among the allowed hosts/, url)
  }
})

test('a refusal names the host, and neither user, path nor query', () => {
  const url = 'https://secret:secret@evil.example:444/secret?secret#secret'
  assert.equal(
    refusal(url, hosted('store.example')),
    'names evil.example, which is not among the allowed hosts of this host',
  )
  assert.equal(refusedUrl(new SignedUrl(url), hosted('store.example')), refusal(url, hosted('store.example')))
  assert.equal(refusedUrl(new SignedUrl(url), strict), undefined)
})

test('an address is refused in whatever way a URL writes it', () => {
  for (const [host, what] of [
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['127.1', 'loopback'],
    ['0177.0.0.1', 'loopback'],
    ['0x7f.0.0.1', 'loopback'],
    ['0x7f000001', 'loopback'],
    ['2130706433', 'loopback'],
    ['127.0.0.1.', 'loopback'],
    ['%31%32%37.0.0.1', 'loopback'],
    ['１２７.0.0.1', 'loopback'],
    ['[::1]', 'loopback'],
    ['[0:0:0:0:0:0:0:1]', 'loopback'],
    ['[::ffff:127.0.0.1]', 'loopback'],
    ['[::ffff:7f00:1]', 'loopback'],
    ['[64:ff9b::7f00:1]', 'loopback'],
    ['0', 'unspecified'],
    ['0.0.0.0', 'unspecified'],
    ['[::]', 'unspecified'],
    ['169.254.169.254', 'link-local'],
    ['0xa9fea9fe', 'link-local'],
    ['[::ffff:169.254.169.254]', 'link-local'],
    ['[64:ff9b::169.254.169.254]', 'link-local'],
    ['[fe80::1]', 'link-local'],
    ['[febf::1]', 'link-local'],
    ['224.0.0.1', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['[ff02::1]', 'multicast'],
    ['255.255.255.255', 'broadcast'],
    ['240.0.0.1', 'broadcast'],
    ['[fd00:ec2::254]', "cloud's metadata"],
    ['[fd00:ec2::253]', "cloud's metadata"],
    ['[fd00:42::42]', "cloud's metadata"],
    ['[fd00:ec2:ffff::1]', "cloud's metadata"],
    ['[fd20:ce::254]', "cloud's metadata"],
    ['192.0.0.192', "cloud's metadata"],
    ['192.0.0.1', 'a reserved address'],
    ['[::ffff:192.0.0.192]', "cloud's metadata"],
    ['[2002:7f00:1::1]', '6to4'],
    ['[2002:a9fe:a9fe::]', '6to4'],
    ['[::127.0.0.1]', 'IPv4-compatible'],
    ['[::a9fe:a9fe]', 'IPv4-compatible'],
    ['[64:ff9b:1::7f00:1]', 'NAT64'],
    ['[64:ff9b:1:fffe:7f:0:100::]', 'NAT64'],
    ['[fec0::1]', 'site-local'],
    ['[feff::1]', 'site-local'],
    ['168.63.129.16', "cloud's metadata"],
    ['100.100.100.200', "cloud's metadata"],
  ] as const) {
    assert.match(refusal(`https://${host}/secret`), new RegExp(what), host)
    assert.match(refusal(`https://user@${host}:9000/secret`), new RegExp(what), host)
  }
})

test('connections to other addresses are allowed, private ones too', () => {
  for (const host of [
    '198.51.100.7',
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '128.0.0.1',
    '126.255.255.255',
    '[2001:db8::1]',
    '[fd00::1]',
    '[fd00:ec3::1]',
    '[fd20:cf::1]',
    '192.0.1.1',
    '[2003::1]',
    '[64:ff9b::198.51.100.7]',
    '[64:ff9b:2::1]',
    '[::1:0:198.51.100.7]',
    '[::ffff:198.51.100.7]',
    'localhost.example',
  ]) {
    assert.ok(allows(`https://${host}/k`, strict), host)
  }
  // The address that this resolves to is judged when a connection is made.
  assert.ok(allows('https://localhost/k', strict))
})

test('an allowed network is reachable although it is refused otherwise, and does not stand in for an allowed host', () => {
  const policy = {
    ...strict,
    allowedNetworks: ['127.0.0.1/32', 'fe80::/64', '192.0.2.128/25'],
    guestRanges: ['192.0.2.0/24'],
  }
  for (const host of ['127.0.0.1', '[::ffff:127.0.0.1]', '[64:ff9b::7f00:1]', '[fe80::7]', '192.0.2.200']) {
    assert.ok(allows(`https://${host}/k`, policy), host)
  }
  for (const host of ['127.0.0.2', '[::1]', '[fe80:0:0:1::7]', '192.0.2.100', '169.254.1.1']) {
    assert.match(refusal(`https://${host}/k`, policy), /may not connect$/, host)
  }
  assert.match(
    refusal('https://127.0.0.1/k', { ...policy, allowedHosts: ['store.example'] }),
    /allowed hosts/,
  )
})

test('addresses of guests are refused: their ranges, and addresses of VMs outside of those', () => {
  const policy = { allowedNetworks: [], guestRanges: ['192.0.2.0/24', '2001:db8:1::/64'] }
  const taken = {
    isGuest: (address: string): boolean => address === '203.0.113.9' || address === '2001:db8:2::9',
    isHost: () => false,
  }
  for (const address of [
    '192.0.2.1',
    '::ffff:192.0.2.1',
    '64:ff9b::192.0.2.1',
    '2001:db8:1::1',
    '2001:DB8:1:0::1',
    '203.0.113.9',
    '::ffff:203.0.113.9',
    '2001:db8:2:0:0:0:0:9',
  ]) {
    assert.equal(refusedAddress(address, policy, taken), 'the address of a guest', address)
  }
  for (const address of ['192.0.3.1', '203.0.113.8', '2001:db8:2::8']) {
    assert.equal(refusedAddress(address, policy, taken), undefined, address)
  }
  const allowed = { ...policy, allowedNetworks: ['203.0.113.9/32'] }
  assert.equal(refusedAddress('203.0.113.9', allowed, taken), undefined)
})

test('an address of this host is refused, unless its network is allowed', () => {
  const taken = { isGuest: () => false, isHost: (address: string): boolean => address === '203.0.113.9' }
  for (const address of ['203.0.113.9', '::ffff:203.0.113.9', '64:ff9b::203.0.113.9'])
    assert.equal(refusedAddress(address, strict, taken), 'an address of this host', address)
  assert.equal(refusedAddress('203.0.113.8', strict, taken), undefined)
  const allowed = { ...strict, allowedNetworks: ['203.0.113.9/32'] }
  assert.equal(refusedAddress('203.0.113.9', allowed, taken), undefined)
})

test('what is not an address is refused: a name, a zone, another way to write one', () => {
  for (const text of [
    '',
    'localhost',
    'fe80::1%eth0',
    '127.1',
    '0x7f000001',
    '010.0.0.1',
    '198.51.100.7:80',
  ]) {
    assert.equal(refusedAddress(text, strict), 'no address', text)
  }
})

test('a redirect is judged like a first URL, and never leaves TLS', () => {
  const from = new URL('https://store.example/a/b?X-Signature=secret')
  const judged = (location: string, policy: OutboundPolicy, base: URL = from): string => {
    const checked = checkRedirect(base, location, policy)
    if (checked.ok) return checked.value.href
    assert.doesNotMatch(checked.error, /secret/)
    return checked.error
  }
  assert.equal(judged('/c?x=1', strict), 'https://store.example/c?x=1')
  assert.equal(judged('c', strict), 'https://store.example/a/c')
  assert.equal(judged('//other.example/c', strict), 'https://other.example/c')
  assert.match(judged('http://store.example/secret', open), /^redirects away from https:$/)
  assert.match(judged('file:///secret', open, new URL('http://store.example/')), /scheme other than/)
  assert.match(judged('http://[/secret', strict), /^redirects to no URL$/)
  assert.match(judged('https://169.254.169.254/secret', strict), /link-local/)
  assert.match(judged('//[::ffff:7f00:1]/secret', strict), /loopback/)
  assert.match(judged('https://evil.example/secret', hosted('store.example')), /allowed hosts/)
  const plain = new URL('http://store.example/')
  assert.equal(judged('https://store.example/c', strict, plain), 'https://store.example/c')
  assert.match(judged('/c', strict, plain), /http:, which is not allowed/)
})
