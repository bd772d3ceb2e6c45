import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeLinkEvent } from './route-events.ts'
import type { LinkEvent } from './route-events.ts'

/** Bodies as Linux 6.18 sends them, shortened to the part that is read. */
const event = (type: number, hex: string): LinkEvent | undefined =>
  decodeLinkEvent({
    type,
    flags: 0,
    sequence: 0,
    port: 0,
    body: Buffer.from(hex.replaceAll(/\s/g, ''), 'hex'),
  })

const NAME = '0e000300 766d74313030303031000000'

test('a link that comes, changes or goes is reported with its name', () => {
  assert.deepEqual(event(16, `00000100 02000000 03100000 ffffffff ${NAME}`), {
    kind: 'link',
    index: 2,
    name: 'vmt100001',
  })
  assert.deepEqual(event(17, `00000100 02000000 02100000 ffffffff ${NAME}`), {
    kind: 'link-gone',
    index: 2,
    name: 'vmt100001',
  })
})

test('reports of a bridge about its ports are not changes of the link', () => {
  assert.equal(event(16, `07000100 02000000 03100000 00000000 ${NAME}`), undefined)
})

test('an address, a route, a qdisc and a filter are reported with their link', () => {
  assert.deepEqual(event(20, '0220800002000000 08000100a9fe0001'), { kind: 'addresses', index: 2 })
  const route = '02200000fe03fd0110000000 08000f00fe000000 08000100c000020a 0800040002000000'
  assert.deepEqual(event(25, route), { kind: 'routes', index: 2 })
  for (const type of [36, 37, 44, 45]) {
    const reported = event(type, '00000000 02000000 00006d76 ffffffff 02000000')
    assert.deepEqual(reported, { kind: 'traffic-control', index: 2 })
  }
})

test('a route without a link is not relevant', () => {
  assert.equal(event(24, '02200000fe030007 00000000 08000f00fe000000 08000100c0000200'), undefined)
})

test('a permanent neighbour is reported when it comes and goes, but not what the kernel learns', () => {
  const neighbour = (state: string): string => `02000000 02000000 ${state}0001 08000100c000020a`
  assert.deepEqual(event(28, neighbour('8000')), { kind: 'neighbours', index: 2 })
  assert.deepEqual(event(29, neighbour('2000')), { kind: 'neighbours', index: 2 })
  for (const learned of ['0100', '0200', '0400', '0800', '1000', '4000']) {
    assert.equal(event(28, neighbour(learned)), undefined, learned)
  }
})

test('any other message is not relevant', () => {
  assert.equal(event(48, '00000000'), undefined)
})
