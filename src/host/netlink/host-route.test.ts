import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeHostRoute, getRoute, isRouteTo } from './host-route.ts'
import { AF_INET } from './route-codec.ts'

const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(/\s/g, ''), 'hex')

test('a question for the route to an address has the address, and asks for the entry of the table', () => {
  const { type, body } = getRoute(AF_INET, Buffer.from([192, 0, 2, 10]))
  assert.equal(type, 26)
  assert.equal(body.toString('hex'), bytes('022000000000000000200000 08000100c000020a').toString('hex'))
})

test('of several routes to one network, the metric decides, and who made them', () => {
  const route = (header: string, attributes: string) => decodeHostRoute(bytes(`${header} ${attributes}`))
  const [to, metric20, byLink2] = ['08000100c000020a', '0800060014000000', '0800040002000000']
  assert.deepEqual(route('02200000fe03fd0100000000', `${to} ${byLink2}`), {
    link: 2,
    leads: 'out',
    metric: 0,
    isLearned: false,
  })
  assert.deepEqual(route('02200000feba000100000000', `${to} ${metric20} ${byLink2}`), {
    link: 2,
    leads: 'out',
    metric: 20,
    isLearned: true,
  })
  for (const refusing of ['06', '07', '08'])
    assert.equal(route(`02200000fe0300${refusing}00000000`, to).leads, 'nowhere', refusing)
  assert.equal(route('02200000ff02fe0200000000', `${to} ${byLink2}`).leads, 'here')
})

test('a route leads to one network, and not to a wider, narrower or other one', () => {
  const network = '20010db8000100000000000000000000'
  const routed = bytes(`0a400000fe03000100000000 08000f00fe000000 14000100${network} 0800040002000000`)
  const to = (hex: string, prefixLength: number): boolean =>
    isRouteTo(routed, { bytes: bytes(hex), prefixLength })
  assert.equal(to(network, 64), true)
  assert.equal(to(network, 56), false)
  assert.equal(to(network, 128), false)
  assert.equal(to('20010db8000200000000000000000000', 64), false)
})

test('a default route has no destination in it', () => {
  const byDefault = bytes('0a000000fe03fd0110000000 08000f00fe000000 0800040002000000')
  assert.equal(isRouteTo(byDefault, { bytes: Buffer.alloc(16), prefixLength: 0 }), true)
  assert.equal(isRouteTo(byDefault, { bytes: Buffer.alloc(16), prefixLength: 64 }), false)
})
