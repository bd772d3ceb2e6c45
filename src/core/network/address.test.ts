import assert from 'node:assert/strict'
import net from 'node:net'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { canonicalAddress, formatAddress, parseAddress } from './address.ts'

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
