import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { ANYWHERE } from '../../../test/fakes/outbound.ts'
import { OutboundAddresses } from './outbound-addresses.ts'
import { OutboundFailure } from './outbound-failure.ts'

/** A connection between these addresses, with only what the guard reads of it. */
const connected = (remote: string | undefined, local: string): Socket =>
  Object.defineProperties(new Socket(), { remoteAddress: { value: remote }, localAddress: { value: local } })

/** Returns the reason for which the guard ended the connection. */
async function endOf(socket: Socket): Promise<OutboundFailure> {
  const addresses = new OutboundAddresses({ policy: ANYWHERE, ownAddresses: () => [] })
  const ended = once(socket, 'error')
  addresses.guard(socket)
  assert.ok(socket.destroyed, 'the connection is let through')
  const [failure] = (await ended) as [unknown]
  assert.ok(failure instanceof OutboundFailure)
  return failure
}

test('a connection that was reset before its check is unreachable, not forbidden', async () => {
  const { kind, message } = await endOf(connected(undefined, '203.0.113.1'))
  assert.deepEqual([kind, message], ['unreachable', 'the connection was reset'])
})

test('a connection of this host to itself is ended, whatever addresses the interfaces list', async () => {
  for (const address of ['203.0.113.9', '2001:db8::9', '::ffff:203.0.113.9']) {
    const { kind, message } = await endOf(connected(address, address))
    assert.equal(kind, 'not_allowed')
    assert.match(message, /an address of this host/)
  }
  const elsewhere = connected('203.0.113.9', '203.0.113.1')
  new OutboundAddresses({ policy: ANYWHERE, ownAddresses: () => [] }).guard(elsewhere)
  assert.ok(!elsewhere.destroyed)
  const allowed = connected('203.0.113.9', '203.0.113.9')
  const policy = { ...ANYWHERE, allowedNetworks: ['203.0.113.9/32'] }
  new OutboundAddresses({ policy, ownAddresses: () => ['203.0.113.9'] }).guard(allowed)
  assert.ok(!allowed.destroyed)
})
