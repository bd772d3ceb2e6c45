import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guestIpv4, guestIpv6 } from './guest-address.ts'

const cases: readonly (readonly [text: string, canonical: string | undefined])[] = [
  ['2001:db8::10', '2001:db8::10'],
  ['2001:0DB8:0000:0000:0000:0000:0000:0010', '2001:db8::10'],
  ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['2001:db8::192.0.2.1', '2001:db8::c000:201'],
  ['fd00::1', 'fd00::1'],
  ['::', undefined],
  ['::1', undefined],
  ['::ffff:192.0.2.1', undefined],
  ['::192.0.2.1', undefined],
  ['fe80::1', undefined],
  ['fec0::1', undefined],
  ['ff02::1', undefined],
]
for (const [text, canonical] of cases) {
  test(`${text} is ${canonical ?? 'no address for a guest'}`, () => {
    assert.equal(guestIpv6(text), canonical)
  })
}

test('an IPv4 address for a guest is unicast, neither loopback nor link-local', () => {
  for (const text of ['192.0.2.1', '10.0.0.1', '169.253.0.1', '223.255.255.254'])
    assert.equal(guestIpv4(text), text)
  for (const text of ['0.0.0.0', '0.1.2.3', '127.0.0.1', '169.254.0.1', '224.0.0.1', '255.255.255.255']) {
    assert.equal(guestIpv4(text), undefined, text)
  }
})
