import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeChange } from './link-change.ts'
import type { LinkChange } from './link-change.ts'

/** RTM_NEW… requests: 0x600 makes only what does not exist yet, 0x500 also replaces. */
const [CREATE_ONLY, CREATE_OR_REPLACE] = [0x600, 0x500]

const GUEST = '20010db8 00000000 00000000 00000010'
const GATEWAY = 'fe800000 00000000 00000000 00000001'

/** The requests for link 2 that ip(8) of iproute2 6.15 sends for its commands. */
const captured: readonly {
  readonly command: string
  readonly change: LinkChange
  readonly type: number
  readonly flags?: number
  readonly body: string
}[] = [
  {
    command: 'addr add 169.254.0.1/32 scope link',
    change: { kind: 'add-address', address: '169.254.0.1/32' },
    type: 20,
    flags: CREATE_ONLY,
    body: '022000fd 02000000 08000200 a9fe0001 08000100 a9fe0001',
  },
  {
    command: 'addr add fe80::1/64 scope link nodad',
    change: { kind: 'add-address', address: 'fe80::1/64' },
    type: 20,
    flags: CREATE_ONLY,
    body: `0a4002fd 02000000 14000200 ${GATEWAY} 14000100 ${GATEWAY}`,
  },
  {
    command: 'route add 192.0.2.10/32',
    change: { kind: 'add-route', route: '192.0.2.10/32' },
    type: 24,
    flags: CREATE_ONLY,
    body: '02200000 fe03fd01 00000000 08000100 c000020a 08000400 02000000',
  },
  {
    command: 'route add 2001:db8::10/128',
    change: { kind: 'add-route', route: '2001:db8::10/128' },
    type: 24,
    flags: CREATE_ONLY,
    body: `0a800000 fe030001 00000000 14000100 ${GUEST} 08000400 02000000`,
  },
  {
    command: 'route add 2001:db8:1::/64 via 2001:db8::10',
    change: { kind: 'add-route', route: '2001:db8:1::/64 via 2001:db8::10' },
    type: 24,
    flags: CREATE_ONLY,
    body: `0a400000 fe030001 00000000 14000100 20010db8 00010000 00000000 00000000 14000500 ${GUEST} 08000400 02000000`,
  },
  {
    command: 'route add 2001:db8:1::/64 via 2001:db8::10 metric 1',
    change: { kind: 'add-route', route: '2001:db8:1::/64 via 2001:db8::10', metric: 1 },
    type: 24,
    flags: CREATE_ONLY,
    body: `0a400000 fe030001 00000000 14000100 20010db8 00010000 00000000 00000000 14000500 ${GUEST} 08000600 01000000 08000400 02000000`,
  },
  {
    command: 'neigh replace 192.0.2.10 lladdr 02:76:00:01:86:a1 nud permanent',
    change: { kind: 'set-neighbour', address: '192.0.2.10', macAddress: '02:76:00:01:86:a1' },
    type: 28,
    flags: CREATE_OR_REPLACE,
    body: '02000000 02000000 80000000 08000100 c000020a 0a000200 02760001 86a10000',
  },
  {
    command: 'neigh replace 2001:db8::10 lladdr 02:76:00:01:86:a1 nud permanent',
    change: { kind: 'set-neighbour', address: '2001:db8::10', macAddress: '02:76:00:01:86:a1' },
    type: 28,
    flags: CREATE_OR_REPLACE,
    body: `0a000000 02000000 80000000 14000100 ${GUEST} 0a000200 02760001 86a10000`,
  },
  {
    command: 'route del 2001:db8:1::/64 via 2001:db8::10',
    change: { kind: 'remove-route', route: '2001:db8:1::/64 via 2001:db8::10' },
    type: 25,
    body: `0a400000 fe000000 00000000 14000100 20010db8 00010000 00000000 00000000 14000500 ${GUEST} 08000400 02000000`,
  },
  {
    command: 'route del 192.0.2.10/32',
    change: { kind: 'remove-route', route: '192.0.2.10/32' },
    type: 25,
    body: '02200000 fe00ff00 00000000 08000100 c000020a 08000400 02000000',
  },
  {
    command: 'route del 2001:db8::10/128',
    change: { kind: 'remove-route', route: '2001:db8::10/128' },
    type: 25,
    body: `0a800000 fe000000 00000000 14000100 ${GUEST} 08000400 02000000`,
  },
  {
    command: 'neigh del 192.0.2.10',
    change: { kind: 'remove-neighbour', address: '192.0.2.10' },
    type: 29,
    body: '02000000 02000000 80000000 08000100 c000020a',
  },
  {
    command: 'neigh del 2001:db8::10',
    change: { kind: 'remove-neighbour', address: '2001:db8::10' },
    type: 29,
    body: `0a000000 02000000 80000000 14000100 ${GUEST}`,
  },
  {
    command: 'addr del 169.254.0.1/32',
    change: { kind: 'remove-address', address: '169.254.0.1/32' },
    type: 21,
    body: '02200000 02000000 08000200 a9fe0001 08000100 a9fe0001',
  },
  {
    command: 'addr del fe80::1/64',
    change: { kind: 'remove-address', address: 'fe80::1/64' },
    type: 21,
    body: `0a400000 02000000 14000200 ${GATEWAY} 14000100 ${GATEWAY}`,
  },
]

for (const { command, change, type, flags, body } of captured) {
  test(`the request is that of ip ${command}`, () => {
    const request = encodeChange(2, change)
    assert.deepEqual(
      { type: request.type, flags: request.flags, body: request.body.toString('hex') },
      { type, flags, body: body.replaceAll(' ', '') },
    )
  })
}

test('a request says what it changes on which link', () => {
  assert.equal(
    encodeChange(2, { kind: 'add-route', route: '192.0.2.10/32' }).what,
    'add route 192.0.2.10/32 to link 2',
  )
})

test('text that is not an address or route is refused', () => {
  for (const route of ['', '192.0.2.10', '192.0.2/32', 'default', '192.0.2.10/32 via router', '/32']) {
    assert.throws(() => encodeChange(2, { kind: 'add-route', route }), RangeError, route)
  }
  assert.throws(() => encodeChange(2, { kind: 'remove-address', address: '169.254.0.1' }), RangeError)
  assert.throws(() => encodeChange(2, { kind: 'remove-neighbour', address: 'fe80' }), RangeError)
})
