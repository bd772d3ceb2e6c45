import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatAddress } from '../../core/network/address.ts'
import { deleteConnection, getConnections, sourcesOf } from './connections.ts'

const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(/\s/g, ''), 'hex')

const TUPLE =
  '34000180 14000180 08000100 c000020a 08000200 cb007102 1c000280 05000100 11000000 06000200 13880000 06000300 1e610000'

test('the connections of an address are requested by their source, in either direction', () => {
  const assertRequest = (request: { type: number; body: Buffer }, hex: string): void => {
    assert.equal(request.type, 0x0101)
    assert.equal(request.body.toString('hex'), bytes(hex).toString('hex'))
  }
  assertRequest(
    getConnections('192.0.2.10', 'original'),
    '02000000 10000180 0c000180 08000100 c000020a 0c001980 08000100 01000000',
  )
  assertRequest(
    getConnections('192.0.2.10', 'reply'),
    '02000000 10000280 0c000180 08000100 c000020a 0c001980 08000200 01000000',
  )
  assertRequest(
    getConnections('2001:db8::10', 'original'),
    '0a000000 1c000180 18000180 14000300 20010db8000000000000000000000010 0c001980 08000100 01000000',
  )
})

test('the sources of a connection over IPv6 are read in both directions', () => {
  const tuple = (type: string, source: string, destination: string): string =>
    `3000${type}80 2c000180 14000300 20010db8${source.padStart(24, '0')} 14000400 20010db8${destination.padStart(24, '0')}`
  const reported = bytes(`0a000000 ${tuple('01', '10', '02')} ${tuple('02', '02', '99')}`)
  assert.deepEqual(sourcesOf(reported).map(formatAddress), ['2001:db8::10', '2001:db8::2'])
})

test('a connection is deleted by its addresses, its zone and its number', () => {
  const reported = bytes(`02000000 ${TUPLE} 08000300 00000008 06001200 00070000 08000c00 a1b2c3d4`)
  const { type, body } = deleteConnection(reported)
  assert.equal(type, 0x0102)
  assert.equal(
    body.toString('hex'),
    bytes(`02000000 ${TUPLE} 06001200 00070000 08000c00 a1b2c3d4`).toString('hex'),
  )
})

test('a connection without addresses is never deleted, because that would mean all of them', () => {
  assert.throws(() => deleteConnection(bytes('02000000 08000c00 a1b2c3d4')), /without addresses/)
})
