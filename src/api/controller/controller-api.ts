import { startListener } from '../listener/listener.ts'
import { createControllerApp } from './create-app.ts'
import { noteInUse } from './certificate-ends.ts'
import { admitClients } from './clients.ts'
import { certificateOf } from './client-certificates.ts'
import { OtherConnections } from './other-connections.ts'
import { beginsUpgrade } from './upgrade.ts'
import type { Listener, ListenerPlace } from '../listener/listener.ts'
import type { Clients } from './clients.ts'
import type { NodeFiles } from './certificate-ends.ts'
import type { ApiDependencies } from './dependencies.ts'

export type ControllerApiOptions = ListenerPlace & {
  readonly dependencies: ApiDependencies
  /** The clients that are let in. */
  readonly clients: Clients
  readonly nodeFiles: NodeFiles
}

/** Serves the controller API. Throws TlsFilesUnusable, or the error of listen(2). */
export async function createControllerApi(options: ControllerApiOptions): Promise<Listener> {
  const { dependencies, clients, nodeFiles, ...place } = options
  const { log, certificates: ends } = dependencies
  const others = new OtherConnections()
  return startListener({
    ...place,
    createApp: (transport) => createControllerApp({ ...dependencies, clients }, transport),
    admit: admitClients(clients),
    beginsUpgrade,
    onCertificates: noteInUse(ends, nodeFiles),
    hasRoom: (name = '', socket) => clients.get(name)?.role === 'controller' || others.admit(socket),
    onConnection(socket, isRevoked) {
      // A client may renew its certificate on a schedule of its own.
      const certificate = certificateOf(socket)
      const role = clients.get(certificate?.commonName ?? '')?.role
      if (certificate !== undefined && role !== undefined)
        socket.once('close', ends.clients.note({ ...certificate, role }, isRevoked))
    },
    log,
  })
}
