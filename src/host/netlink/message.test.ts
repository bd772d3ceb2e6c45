import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import {
  decodeAttributes,
  decodeMessages,
  decodeString,
  encodeAttribute,
  encodeMessage,
  encodeString,
} from './message.ts'

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')

test('a message has its length, type, flags, sequence and an empty port, then the body', () => {
  const bytes = encodeMessage({ type: 18, flags: 0x301, sequence: 7, body: hex('0a0b0c0d') })
  assert.deepEqual(bytes, hex('14000000 1200 0103 07000000 00000000 0a0b0c0d'))
})

test('one datagram may hold several messages, each padded to a multiple of four', () => {
  const first = { type: 16, flags: 2, sequence: 1, port: 0, body: hex('0102030405') }
  const second = { type: 3, flags: 2, sequence: 1, port: 0, body: Buffer.alloc(4) }
  const datagram = Buffer.concat([encodeMessage(first), Buffer.alloc(3), encodeMessage(second)])
  assert.deepEqual(decodeMessages(datagram), [first, second])
})

test('the last message needs no padding', () => {
  const only = { type: 16, flags: 0, sequence: 1, port: 0, body: hex('01') }
  assert.deepEqual(decodeMessages(encodeMessage(only)), [only])
})

test('a report that a request caused carries the port of its socket', () => {
  const [reported] = decodeMessages(hex('10000000 2400 0000 07000000 d2040000'))
  assert.deepEqual(reported, { type: 36, flags: 0, sequence: 7, port: 1234, body: Buffer.alloc(0) })
})

test('an attribute has its length and type, then the value and padding', () => {
  assert.deepEqual(encodeAttribute(3, encodeString('vmt1')), hex('0900 0300 766d743100 000000'))
})

test('the marks of nested and big-endian attributes are not part of the type', () => {
  const attributes = decodeAttributes(hex('0800 0180 00000001 0800 0240 00000002'))
  assert.deepEqual([...attributes.keys()], [1, 2])
})

test('a string ends at its first NUL, if it has one', () => {
  assert.equal(decodeString(Buffer.from('tun\0')), 'tun')
  assert.equal(decodeString(Buffer.from('tun')), 'tun')
  assert.equal(decodeString(Buffer.alloc(0)), '')
})

test('attributes come back as they were written', () => {
  const attribute = fc.tuple(fc.integer({ min: 0, max: 0x3fff }), fc.uint8Array({ maxLength: 300 }))
  fc.assert(
    fc.property(fc.uniqueArray(attribute, { selector: ([type]) => type }), (written) => {
      const bytes = Buffer.concat(written.map(([type, value]) => encodeAttribute(type, value)))
      const read = [...decodeAttributes(bytes)].map(([type, value]) => [type, Uint8Array.from(value)])
      assert.deepEqual(read, written)
    }),
  )
})

test('bytes that are not a message or attribute are refused and never read past their end', () => {
  for (const text of [
    '00',
    '10000000',
    '0f0000000000000000000000000000ff',
    '14000000120000000700000000000000',
  ]) {
    assert.throws(() => decodeMessages(hex(text)), RangeError, text)
  }
  for (const text of ['04', '03000100', '00000000', '0900010000000000']) {
    assert.throws(() => decodeAttributes(hex(text)), RangeError, text)
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      for (const decode of [decodeMessages, decodeAttributes]) {
        try {
          decode(Buffer.from(bytes))
        } catch (error) {
          assert.ok(error instanceof RangeError)
        }
      }
    }),
  )
})
