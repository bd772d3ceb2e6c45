import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { HandshakeGate, peerOf, RefusedHandshakes } from './handshake-gate.ts'
import { createLog } from '../../log/logger.ts'
import type { HandshakeSocket } from './handshake-gate.ts'

/** An accepted connection, with only the members that the gate uses. */
class Connection extends EventEmitter implements HandshakeSocket {
  static #port = 0
  readonly remoteAddress: string
  readonly remotePort: number

  constructor(address: string, port = (Connection.#port += 1)) {
    super()
    this.remoteAddress = address
    this.remotePort = port
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

test('a peer that comes from the same port before its old connection is closed keeps no place', () => {
  let nowMs = 0
  const gate = new HandshakeGate(() => nowMs)
  for (let n = 0; n <= limits.handshakesPerPeerMax; n += 1) {
    const [old, next] = [new Connection('192.0.2.1', 7), new Connection('192.0.2.1', 7)]
    for (const connection of [old, next]) assert.ok(gate.admit(connection), `${n}`)
    old.destroy()
    next.destroy()
    nowMs += 10_000 / limits.handshakeFailuresPerSecond
  }
})

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

test('the first refusal of a reason is logged at once, and the rest in one line with their number', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const lines: { reason: string; count: number; peer: string }[] = []
  const log = createLog({ level: 'info', write: (line) => lines.push(JSON.parse(line)) })
  const refused = new RefusedHandshakes(log, 1000)
  const reported = () => lines.map(({ peer, reason, count }) => [peer, reason, count])
  for (let n = 0; n < 1000; n += 1) refused.note({ peer: `192.0.2.${n % 10}`, reason: 'CERT_HAS_EXPIRED' })
  refused.note({ peer: '192.0.2.20', reason: 'ECONNRESET' })
  assert.deepEqual(reported(), [
    ['192.0.2.0', 'CERT_HAS_EXPIRED', 1],
    ['192.0.2.20', 'ECONNRESET', 1],
  ])
  t.mock.timers.tick(1000)
  assert.deepEqual(reported().slice(2), [['192.0.2.9', 'CERT_HAS_EXPIRED', 999]])
  t.mock.timers.tick(1000)
  assert.equal(lines.length, 3)
  refused.note({ peer: '192.0.2.1', reason: 'CERT_HAS_EXPIRED' })
  assert.equal(lines.length, 4)
})

test('each certificate that is refused has a line of its own, however often another one is tried', () => {
  const lines: { certificate_name: string; certificate_serial: string }[] = []
  const log = createLog({ level: 'info', write: (line) => lines.push(JSON.parse(line)) })
  const refused = new RefusedHandshakes(log, 60_000)
  for (const serial of ['0A', '0A', '0B', '0A'])
    refused.note({
      peer: '192.0.2.1',
      reason: 'CERT_REVOKED',
      certificate: { certificate_name: 'anna', certificate_serial: serial },
    })
  assert.deepEqual(
    lines.map(({ certificate_name, certificate_serial }) => [certificate_name, certificate_serial]),
    [
      ['anna', '0A'],
      ['anna', '0B'],
    ],
  )
})

test('reasons that others choose do not make more lines than there are reasons at a time', () => {
  const lines: string[] = []
  const refused = new RefusedHandshakes(
    createLog({ level: 'info', write: (line) => lines.push(line) }),
    60_000,
  )
  for (let n = 0; n < 1000; n += 1) refused.note({ peer: undefined, reason: `reason ${n}` })
  assert.ok(lines.length <= 17, `${lines.length} lines`)
})
