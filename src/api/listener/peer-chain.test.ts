import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { certificatesSent, peerCertificate } from './peer-chain.ts'

test('a connection that is already gone has no certificate', () => {
  const gone = new TLSSocket(new Socket())
  gone.destroy()
  assert.deepEqual(peerCertificate(gone), { certificate_name: undefined, certificate_serial: undefined })
  assert.deepEqual(certificatesSent(gone), [])
})
