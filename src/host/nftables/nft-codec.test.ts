import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as codec from './nft-codec.ts'

/** Bodies as Linux 6.18 sends them. Attributes of rules and sets that are not read here are left out. */
const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(/\s/g, ''), 'hex')

const TABLE = '0c000100 766d686f73746400'

test('requests are what the kernel expects', () => {
  const assertRequest = (request: { type: number; body: Buffer }, type: number, hex: string): void => {
    assert.equal(request.type, type)
    assert.equal(request.body.toString('hex'), bytes(hex).toString('hex'))
  }
  assertRequest(codec.getGeneration(), 0x0a10, '00000000')
  assertRequest(codec.getObjects('table', 'vmhostd'), 0x0a01, `01000000 ${TABLE}`)
  assertRequest(codec.getObjects('set', 'vmhostd'), 0x0a0a, `01000000 ${TABLE}`)
  assertRequest(codec.getObjects('chain', 'vmhostd', 'c'), 0x0a04, `01000000 ${TABLE} 06000300 63000000`)
  assertRequest(codec.getObjects('rule', 'vmhostd', 'c'), 0x0a07, `01000000 ${TABLE} 06000200 63000000`)
  assertRequest(codec.getElements('vmhostd', 's'), 0x0a0d, `01000000 ${TABLE} 06000200 73000000`)
  assertRequest(
    codec.getElements('vmhostd', 's', bytes('766d7431')),
    0x0a0d,
    `01000000 ${TABLE} 06000200 73000000 14000380 10000180 0c000180 08000100 766d7431`,
  )
})

test('a transaction that adds elements is what the kernel expects', () => {
  const hexOf = ({ type, body }: { type: number; body: Buffer }): string =>
    `${type.toString(16)} ${body.toString('hex')}`
  assert.equal(hexOf(codec.beginTransaction(258)), '10 0000000a0800010000000102')
  assert.equal(hexOf(codec.endTransaction()), '11 0000000a')
  const added = codec.newElements('vmhostd', 's', [bytes('766d7431'), bytes('766d7432')])
  const elements = ['766d7431', '766d7432'].map((key) => `10000180 0c000180 08000100 ${key}`).join(' ')
  assert.equal(
    hexOf(added),
    `a0c ${bytes(`01000000 ${TABLE} 06000200 73000000 24000380 ${elements}`).toString('hex')}`,
  )
})

test('the generation of nftables', () => {
  const body = bytes('00000002 08000100 00000002 08000200 00002381 14000300 6e6f64652d4d61696e54687265616400')
  assert.equal(codec.decodeGeneration(body), 2)
})

test('a table, and the number of its objects', () => {
  const body = bytes(`01000002 ${TABLE} 08000300 00000006 0c000400 0000000000000001 08000200 00000000`)
  assert.deepEqual(codec.decodeTable(body), { name: 'vmhostd', settings: '00000000', handle: 1n, use: 6 })
})

test('a chain, and one with a policy', () => {
  const chain = `01000002 ${TABLE} 0c000300 746f5f766d743100 0c000200 0000000000000001 08000600 00000002`
  assert.deepEqual(codec.decodeChain(bytes(chain)), { name: 'to_vmt1', settings: '', handle: 1n })
  const base = `01000002 ${TABLE} 09000300 6261736500000000 0c000200 0000000000000002
    14000400 08000100 00000002 08000200 00000000 08000500 00000000 0b000700 66696c7465720000 08000a00 00000001`
  assert.deepEqual(codec.decodeChain(bytes(base)), { name: 'base', settings: '00000000', handle: 2n })
})

test('the handle of a rule', () => {
  const body = bytes(`01000002 ${TABLE} 0c000200 746f5f766d743100 0c000300 0000000000000007`)
  assert.equal(codec.decodeRuleHandle(body), 7n)
})

test('a set, and the timeout of its elements', () => {
  const plain = bytes(
    `01000002 ${TABLE} 0a000200 64726f7073000000 0c001000 0000000000000005 08000300 00000020`,
  )
  assert.deepEqual(codec.decodeSet(plain), { name: 'drops', settings: '', handle: 5n })
  const body = bytes(`01000002 ${TABLE} 09000200 7261746500000000 0c001000 0000000000000006 08000300 00000030
    0c000b00 000000000000ea60`)
  assert.deepEqual(codec.decodeSet(body), { name: 'rate', settings: '000000000000ea60', handle: 6n })
})

const VMT1 = '766d7431 000000000000000000000000'

test('an element by its key, parts of which fill four bytes each', () => {
  const body = bytes(`01000002 ${TABLE} 0f000200 67756573745f697076340000
    24000300 20000100 1c000100 18000100 ${VMT1} c0000201`)
  assert.deepEqual(codec.decodeElements(body), [{ key: '766d7431000000000000000000000000c0000201' }])
})

test('an element of a map by the chain that it leads to, and another verdict as no chain', () => {
  const body = bytes(`01000002 ${TABLE} 0c000200 696e626f756e6400 68000300
    2c000100 18000100 14000100 766d7432 000000000000000000000000 10000200 0c000200 08000100 00000001
    38000100 18000100 14000100 ${VMT1} 1c000200 18000200 08000100 fffffffc 0c000200 746f5f766d743100`)
  assert.deepEqual(codec.decodeElements(body), [
    { key: '766d7432000000000000000000000000', chain: 'verdict 1' },
    { key: '766d7431000000000000000000000000', chain: 'to_vmt1' },
  ])
})

test('an element with what was counted', () => {
  const body = bytes(`01000002 ${TABLE} 0a000200 64726f7073000000 4c000300 48000100 18000100 14000100 ${VMT1}
    2c000700 0c000100 636f756e74657200 1c000200 0c000100 00000000000000fc 0c000200 0000000000000003`)
  assert.deepEqual(codec.decodeElements(body), [
    { key: '766d7431000000000000000000000000', count: { packets: 3, bytes: 252 } },
  ])
})

test('the end of a dump has no elements, and a list that does not fit is refused', () => {
  assert.deepEqual(codec.decodeElements(bytes(`01000002 ${TABLE} 0a000200 64726f7073000000 04000300`)), [])
  assert.throws(() => codec.decodeElements(bytes(`01000002 ${TABLE} 08000300 ff000100`)), RangeError)
})

test('a change of anything in the table is news, if the family matches', () => {
  const news = (type: number, body: string): boolean =>
    codec.isNewsOf('vmhostd', { type, flags: 0, sequence: 0, port: 0, body: bytes(body) })
  assert.ok(news(0x0a06, `01000002 ${TABLE} 0c000200 746f5f766d743100`))
  assert.ok(news(0x0a02, `01000002 ${TABLE}`))
  assert.ok(!news(0x0a06, `02000002 ${TABLE}`), 'of family ip')
  assert.ok(!news(0x0a06, `01000002 06000100 78000000`), 'of another table')
  assert.ok(!news(0x0a0f, '00000002 08000100 00000002'), 'the generation')
})
