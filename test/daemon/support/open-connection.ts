import { once } from 'node:events'
import { connect } from 'node:tls'
import type { TestContext } from 'node:test'
import type { TLSSocket } from 'node:tls'
import type { CertificatePair } from '../../../src/daemon/setup/certificates.ts'
import type { Pki } from './controller-host.ts'

/** Opens a connection, and waits until the host has finished its handshake too: its answer shows that. */
export async function openConnection(
  t: TestContext,
  { pki, port, pair }: { readonly pki: Pki; readonly port: number; readonly pair: CertificatePair },
): Promise<TLSSocket> {
  const { certificate: cert, key } = pair
  const socket = connect({ port, host: '127.0.0.1', ca: pki.authority.certificate, cert, key })
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  socket.write('HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await once(socket, 'data')
  return socket
}
