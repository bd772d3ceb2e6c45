import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guestElements, parseListing } from './nft-listing.ts'
import type { DeviceName, MacAddress } from '../../core/vm/ids.ts'

type Changes = {
  readonly handle?: number
  readonly packets?: number
  readonly version?: string
  readonly guests?: readonly string[]
  readonly rate?: readonly string[]
  readonly ports?: readonly number[]
  readonly verdict?: string
}

/** A listing as nft prints it, small. */
function listing(changes: Changes = {}): string {
  const {
    handle = 1,
    packets = 0,
    version = '1.0.6',
    guests = [],
    rate = [],
    ports = [22, 80],
    verdict = 'drop',
  } = changes
  const table = { family: 'inet', table: 'vmhostd' }
  return JSON.stringify({
    nftables: [
      { metainfo: { version } },
      { table: { family: 'inet', name: 'vmhostd', handle } },
      {
        set: {
          ...table,
          name: 'guest_ipv4',
          type: ['ifname', 'ipv4_addr'],
          handle: handle + 1,
          ...(guests.length === 0
            ? {}
            : { elem: guests.map((address) => ({ concat: ['vmt100001', address] })) }),
        },
      },
      {
        set: {
          ...table,
          name: 'discovery_rate',
          type: 'ifname',
          handle: handle + 2,
          timeout: 60,
          elem: rate,
        },
      },
      { set: { ...table, name: 'ports', type: 'inet_service', handle: handle + 3, elem: ports } },
      { chain: { ...table, name: 'from_guest', handle: handle + 4 } },
      {
        rule: {
          ...table,
          chain: 'from_guest',
          handle: handle + 5,
          expr: [{ counter: { packets, bytes: packets * 100 } }, { [verdict]: null }],
        },
      },
    ],
  })
}

const skeleton = (changes: Changes): string | undefined => parseListing(listing(changes))?.skeleton

test('what changes by itself is no difference: handles, counters, what packets put into sets, the order of elements', () => {
  const written = skeleton({})
  assert.equal(skeleton({ handle: 1000 }), written)
  assert.equal(skeleton({ packets: 7 }), written)
  assert.equal(skeleton({ rate: ['vmt100001'] }), written)
  assert.equal(skeleton({ ports: [80, 22] }), written)
  assert.equal(skeleton({ version: '1.1.3' }), written)
})

test('what somebody changes is a difference', () => {
  const written = skeleton({})
  assert.notEqual(skeleton({ verdict: 'accept' }), written)
  assert.notEqual(skeleton({ ports: [22] }), written)
})

test('guests are no part of the skeleton, and are read as they are written', () => {
  const read = parseListing(listing({ guests: ['192.0.2.10'] }))
  assert.ok(read !== undefined)
  assert.equal(read.skeleton, skeleton({}))
  const rule = { device: 'vmt100001' as DeviceName, macAddress: '02:76:00:01:86:a1' as MacAddress }
  const expected = guestElements([{ ...rule, ipv4Address: '192.0.2.10' }])
  assert.deepEqual(expected.difference(read.guests), guestElements([rule]))
  assert.deepEqual(read.guests.difference(expected), new Set())
})

test('an output that is no listing is none', () => {
  for (const text of ['', 'nonsense', '{}', '{"nftables": ['])
    assert.equal(parseListing(text), undefined, text)
})
