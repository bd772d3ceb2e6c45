import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeFilter, decodeQdisc, getIngressFilter, getRootQdisc } from './traffic-control-codec.ts'

/** Bodies as Linux 6.18 sends them. Old statistics, which are not read, are left out. */
const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(/\s/g, ''), 'hex')

test('requests are the bytes that the kernel expects', () => {
  const qdisc = getRootQdisc(2)
  assert.deepEqual({ type: qdisc.type, flags: qdisc.flags }, { type: 38, flags: 8 })
  assert.equal(qdisc.body.toString('hex'), '000000000200000000000000ffffffff00000000')
  const filter = getIngressFilter(2, { preference: 30_316, handle: 1 })
  assert.equal(filter.type, 46)
  assert.equal(filter.body.toString('hex'), '000000000200000001000000f2ffffff00036c76')
})

test('a token bucket has a rate, and a number of dropped packets', () => {
  const body = bytes(`00000000 02000000 00006d76 ffffffff 02000000
    08000100 74626600
    2c000200 28000100 0001000000000000 a0252600 000000000000000000000000 48680200 00200300 00000000
    05000c0000000000
    30000700 1400010000000000000000000000000000000000 18000300 00000000 00000000 07000000 00000000 00000000`)
  assert.deepEqual(decodeQdisc(body), {
    handle: 0x766d0000,
    kind: 'tbf',
    rate: 20_000_000,
    droppedPackets: 7,
  })
})

test('a rate that does not fit into 32 bits is read from its own attribute', () => {
  const body = bytes(`00000000 02000000 00006d76 ffffffff 02000000
    08000100 74626600
    38000200 28000100 0001000000000000 ffffffff 000000000000000000000000 48680200 28000000 00000000
      0c000400 00dd0ee902000000`)
  assert.equal(decodeQdisc(body).rate, 100_000_000_000)
})

test('another qdisc has no rate', () => {
  const body = bytes(`00000000 02000000 00000000 ffffffff 02000000
    0f000100 706669666f5f6661737400 00 18000200 03000000 0102020201020000 0101010101010101`)
  assert.deepEqual(decodeQdisc(body), { handle: 0, kind: 'pfifo_fast', droppedPackets: 0 })
})

/** A bpf filter whose only action is mirred, of that kind and to that link. */
const redirection = (action: string, link: string): Buffer =>
  bytes(`00000000 02000000 01000000 f2ffffff 00036c76
    08000100 62706600 08000b0000000000
    54000200 0600040001000000 0c000500 06000000ffffffff
      3c000100 38000100 0b000100 6d697272656400 00
        28000200 24000200 01000000 00000000 04000000 01000000 01000000 ${action} ${link} 00000000`)

test('a filter that redirects packets has the index of the target link, also when that is gone', () => {
  assert.deepEqual(decodeFilter(redirection('01000000', '03000000')), { kind: 'bpf', redirectTo: 3 })
  assert.deepEqual(decodeFilter(redirection('01000000', '00000000')), { kind: 'bpf', redirectTo: 0 })
})

test('a filter that copies packets, or does something else, does not redirect', () => {
  assert.deepEqual(decodeFilter(redirection('02000000', '03000000')), { kind: 'bpf' })
  const without = '00000000 02000000 01000000 f2ffffff 00036c76 08000100 62706600 04000200'
  assert.deepEqual(decodeFilter(bytes(without)), { kind: 'bpf' })
})
