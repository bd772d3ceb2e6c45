import assert from 'node:assert/strict'
import net from 'node:net'
import { test } from 'node:test'
import * as fc from 'fast-check'
import {
  canonicalAddress,
  formatAddress,
  parseAddress,
  networkContains,
  networkFamily,
  parseNetwork,
} from './address.ts'

test('every spelling of an address has one canonical text', () => {
  const spellings = {
    '192.0.2.10': ['192.0.2.10'],
    '2001:db8::10': [
      '2001:db8::10',
      '2001:DB8:0:0::10',
      '2001:0db8:0000:0000:0000:0000:0000:0010',
      '2001:db8::0.0.0.16',
    ],
    '::': ['::', '0::', '::0', '0:0:0:0:0:0:0:0', '::0.0.0.0'],
    '::1': ['::1', '0:0:0:0:0:0:0:1'],
    'fe80::': ['fe80::', 'FE80::0'],
    '::ffff:192.0.2.1': ['::ffff:192.0.2.1', '::FFFF:c000:201'],
  }
  for (const [canonical, texts] of Object.entries(spellings)) {
    for (const text of texts) assert.equal(canonicalAddress(text), canonical, text)
  }
})

test('the first of the longest runs of zeros is shortened, and never a single zero', () => {
  assert.equal(canonicalAddress('2001:db8:0:0:1:0:0:1'), '2001:db8::1:0:0:1')
  assert.equal(canonicalAddress('2001:0:0:1:0:0:0:1'), '2001:0:0:1::1')
  assert.equal(canonicalAddress('2001:db8:0:1:1:1:1:1'), '2001:db8:0:1:1:1:1:1')
})

test('what is not an address is refused', () => {
  const texts = [
    '',
    ' 192.0.2.1',
    '192.0.2',
    '192.0.2.1.',
    '192.0.2.256',
    '192.0.02.1',
    '0x7f.0.0.1',
    '192.0.2.1/32',
    'localhost',
    ':',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7:8::',
    '1:2:3:4::5:6:7:8',
    '12345::',
    'g::',
    'fe80::1%eth0',
    '[::1]',
    '::192.0.2.1:1',
    '192.0.2.1::',
    '::192.0.2',
    '1:',
    ':1',
  ]
  for (const text of texts) assert.equal(parseAddress(text), undefined, text)
})

test('text and bytes convert into each other without loss, and agree with the URL standard', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(0, 0, 0, 1, 0xff), { minLength: 16, maxLength: 16 }), (bytes) => {
      const text = formatAddress(Uint8Array.from(bytes))
      assert.deepEqual(parseAddress(text), Uint8Array.from(bytes))
      if (!text.startsWith('::ffff:')) assert.equal(new URL(`http://[${text}]`).hostname, `[${text}]`)
    }),
  )
})

test('it accepts exactly the texts that the platform accepts', () => {
  const piece = fc.constantFrom('0', '1', 'ff', '::', ':', '.', '192.0.2.1', '255', '00', 'db8')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const text = pieces.join('')
      assert.equal(parseAddress(text) !== undefined, net.isIP(text) !== 0, text)
    }),
    { numRuns: 2000 },
  )
})

const networkOf = (text: string): string => {
  const parsed = parseNetwork(text)
  return parsed.ok ? parsed.value : assert.fail(`${text} ${parsed.error}`)
}

test('a network has one text', () => {
  assert.equal(networkOf('192.0.2.0/24'), '192.0.2.0/24')
  assert.equal(networkOf('192.0.2.8/29'), '192.0.2.8/29')
  assert.equal(networkOf('192.0.2.1/32'), '192.0.2.1/32')
  assert.equal(networkOf('0.0.0.0/0'), '0.0.0.0/0')
  assert.equal(networkOf('2001:DB8:0:0::/32'), '2001:db8::/32')
  assert.equal(networkOf('2001:db8::1/128'), '2001:db8::1/128')
  assert.equal(networkOf('::/0'), '::/0')
})

test('bits after the prefix are an error that names the network meant', () => {
  const error = (text: string): string => {
    const parsed = parseNetwork(text)
    return parsed.ok ? assert.fail(`${text} is taken`) : parsed.error
  }
  assert.equal(error('192.0.2.77/26'), 'has bits set after its prefix; the network is 192.0.2.64/26')
  assert.equal(error('2001:db8::1/33'), 'has bits set after its prefix; the network is 2001:db8::/33')
  assert.equal(
    error('2001:db8:c000::/33'),
    'has bits set after its prefix; the network is 2001:db8:8000::/33',
  )
  assert.equal(error('192.0.2.0/33'), 'has a prefix longer than the 32 bits of its address')
  assert.equal(error('2001:db8::/129'), 'has a prefix longer than the 128 bits of its address')
})

test('what is not a network is refused', () => {
  for (const text of [
    '',
    '/24',
    '192.0.2.0',
    '192.0.2.0/',
    '192.0.2.0/024',
    '192.0.2.0/-1',
    '192.0.2.0/24/24',
    '192.0.2.0/255.255.255.0',
    ' 192.0.2.0/24',
    '192.0.2/24',
    '2001:db8::/1e1',
    'fe80::%eth0/64',
    'localhost/8',
  ])
    assert.equal(parseNetwork(text).ok, false, text)
})

test('a network contains its addresses and no others', () => {
  assert.ok(networkContains('192.0.2.64/26', '192.0.2.64'))
  assert.ok(networkContains('192.0.2.64/26', '192.0.2.127'))
  assert.ok(!networkContains('192.0.2.64/26', '192.0.2.128'))
  assert.ok(!networkContains('192.0.2.64/26', '192.0.2.63'))
  assert.ok(networkContains('2001:db8::/32', '2001:db8:ffff::1'))
  assert.ok(!networkContains('2001:db8::/32', '2001:db9::'))
  assert.ok(networkContains('0.0.0.0/0', '198.51.100.1'))
  assert.ok(networkContains('2001:db8::/127', '2001:db8::1'))
  assert.ok(!networkContains('2001:db8::/127', '2001:db8::2'))
  assert.ok(!networkContains('2001:db8::/128', '2001:db8::1'))
})

test('an address of one family is in no network of the other, and what is not an address is in none', () => {
  assert.ok(!networkContains('::/0', '192.0.2.1'))
  assert.ok(!networkContains('0.0.0.0/0', '::ffff:192.0.2.1'))
  assert.ok(!networkContains('0.0.0.0/0', 'localhost'))
  assert.ok(!networkContains('localhost', '192.0.2.1'))
})

test('the family of a network', () => {
  assert.equal(networkFamily('192.0.2.0/24'), 'ipv4')
  assert.equal(networkFamily('2001:db8::/32'), 'ipv6')
})

test('every address and every prefix give a network, or name the one meant, that contains the address', () => {
  const bytes = fc
    .constantFrom(4, 16)
    .chain((length) => fc.uint8Array({ minLength: length, maxLength: length }))
  fc.assert(
    fc.property(bytes, fc.nat(128), (address, anyPrefix) => {
      const prefix = anyPrefix % (address.length * 8 + 1)
      const text = formatAddress(address)
      const parsed = parseNetwork(`${text}/${prefix}`)
      const network = parsed.ok ? parsed.value : /the network is (.+)$/.exec(parsed.error)?.[1]
      assert.ok(network !== undefined && networkContains(network, text))
      assert.equal(networkOf(network), network)
    }),
  )
})
