import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { HandshakeGate, peerOf } from './handshake-gate.ts'
import type { HandshakeSocket } from './handshake-gate.ts'

/** An accepted connection, with only the members that the gate uses. */
class Connection extends EventEmitter implements HandshakeSocket {
  static #port = 0
  readonly remoteAddress: string
  readonly remotePort = (Connection.#port += 1)

  constructor(address: string) {
    super()
    this.remoteAddress = address
  }

  destroy(): void {
    this.emit('close')
  }
}

function fail(gate: HandshakeGate, address: string, times: number): void {
  for (let n = 0; n < times; n += 1) {
    const connection = new Connection(address)
    assert.ok(gate.admit(connection))
    connection.destroy()
  }
}

test('a peer whose handshakes fail again and again waits for its next one, and another peer does not', () => {
  let nowMs = 0
  const gate = new HandshakeGate(() => nowMs)
  fail(gate, '192.0.2.1', limits.handshakesPerPeerMax)
  assert.equal(gate.admit(new Connection('192.0.2.1')), false)
  assert.equal(gate.admit(new Connection('::ffff:192.0.2.1')), false)
  assert.equal(gate.admit(new Connection('192.0.2.2')), true)
  nowMs += 1000 / limits.handshakeFailuresPerSecond
  fail(gate, '192.0.2.1', 1)
  assert.equal(gate.admit(new Connection('192.0.2.1')), false)
})

test('a handshake that succeeds is not counted as failed when its connection ends', () => {
  const gate = new HandshakeGate(() => 0)
  for (let n = 0; n < 10 * limits.handshakesPerPeerMax; n += 1) {
    const connection = new Connection('192.0.2.1')
    assert.ok(gate.admit(connection))
    gate.letIn(connection)
    connection.destroy()
  }
})

test('peers without number are not remembered without bound', () => {
  const gate = new HandshakeGate(() => 0)
  fail(gate, '192.0.2.1', limits.handshakesPerPeerMax)
  for (let n = 0; n < limits.handshakePeersMax; n += 1) fail(gate, `10.0.${n >> 8}.${n & 255}`, 1)
  assert.equal(gate.admit(new Connection('192.0.2.1')), true)
})

test('a peer that has handshakes under way is remembered, however many others come', () => {
  let nowMs = 0
  const gate = new HandshakeGate(() => nowMs)
  for (let n = 0; n < limits.handshakesPerPeerMax; n += 1) assert.ok(gate.admit(new Connection('192.0.2.1')))
  for (let n = 0; n < limits.handshakePeersMax; n += 1) fail(gate, `10.0.${n >> 8}.${n & 255}`, 1)
  nowMs += (1000 * limits.handshakesPerPeerMax) / limits.handshakeFailuresPerSecond
  assert.equal(gate.admit(new Connection('192.0.2.1')), false)
})

test('a peer is an IPv4 address, mapped or not, or an IPv6 network of 64 bits', () => {
  assert.equal(peerOf('::ffff:192.0.2.1'), peerOf('192.0.2.1'))
  assert.notEqual(peerOf('192.0.2.1'), peerOf('192.0.2.2'))
  assert.equal(peerOf('2001:db8:0:1::1'), peerOf('2001:db8:0:1:ffff::9'))
  assert.notEqual(peerOf('2001:db8:0:1::1'), peerOf('2001:db8:0:2::1'))
  assert.equal(peerOf('fe80::1%eth0'), peerOf('fe80::2'))
})
