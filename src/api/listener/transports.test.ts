import assert from 'node:assert/strict'
import { IncomingMessage } from 'node:http'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { ok } from '../../lib/result.ts'
import { silentLog } from '../../log/log.ts'
import { tlsTransport } from './transports.ts'

test('the certificate of a connection is read once, however many requests come over it', (t) => {
  const transport = tlsTransport({
    secure: {},
    admit: () => ok('controller'),
    beginsUpgrade: () => false,
    isRevoked: () => false,
    hasRoom: () => true,
    log: silentLog,
  })
  const connection = new TLSSocket(new Duplex())
  const shown = { subject: { CN: 'controller' }, serialNumber: '0A' }
  const reads = t.mock.method(connection, 'getPeerCertificate', () => shown)
  const peers = [1, 2].map(() => transport.peer(new IncomingMessage(connection)))
  assert.deepEqual(
    peers.map(({ certificate_name }) => certificate_name),
    ['controller', 'controller'],
  )
  assert.equal(reads.mock.callCount(), 1)
  connection.destroy()
})
