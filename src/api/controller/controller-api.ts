import { BoundListener } from '../listener/listener.ts'
import { controllerPages, createControllerApp } from './create-app.ts'
import { noteInUse } from './certificate-ends.ts'
import { admitClients } from './clients.ts'
import { limits } from '../../config/limits.ts'
import { ConnectionCounts } from '../listener/client-bounds.ts'
import { peerCertificate } from '../listener/peer-chain.ts'
import { beginsUpgrade } from './upgrade.ts'
import type { Listener, ListenerPlace } from '../listener/listener.ts'
import type { Log } from '../../log/log.ts'
import type { Clients } from './clients.ts'
import type { NodeFiles } from './certificate-ends.ts'
import type { ApiDependencies } from './dependencies.ts'

export type ControllerApiOptions = ListenerPlace & {
  /** The clients that are let in. */
  readonly clients: Clients
  readonly nodeFiles: NodeFiles
  /** The version of this build. */
  readonly version: string
  readonly log: Log
}

/** The controller API, whose listener is bound. Until it is served, it answers that it is alive and starting. */
export type BoundControllerApi = Pick<BoundListener, 'address' | 'port' | 'close'> & {
  /** Serves the API from now on. */
  serve(dependencies: ApiDependencies): Promise<Listener>
}

/** Binds the listener of the controller API. Throws TlsFilesUnusable, or the error of listen(2). */
export async function bindControllerApi(options: ControllerApiOptions): Promise<BoundControllerApi> {
  const { clients, nodeFiles } = options
  // All who are not controllers are one party: they cannot keep a controller out, who may have to stop a VM.
  const others = new ConnectionCounts(limits.connectionsOthersMax)
  const bound = await BoundListener.bind({
    ...options,
    admit: admitClients(clients),
    beginsUpgrade,
    pages: controllerPages,
    hasRoom: (name = '', socket) =>
      clients.get(name)?.role === 'controller' || others.admit('others', socket),
  })
  return {
    address: bound.address,
    port: bound.port,
    close: () => bound.close(),
    serve: (dependencies) =>
      bound.serve({
        createApp: (transport) => createControllerApp({ ...dependencies, clients }, transport),
        onCertificates: noteInUse(dependencies.certificates, nodeFiles),
        onConnection(socket, isRevoked) {
          // A client may renew its certificate on a schedule of its own.
          const role = clients.get(peerCertificate(socket).certificate_name ?? '')?.role
          if (role !== undefined) dependencies.certificates.clients.noteSocket(socket, role, isRevoked)
        },
      }),
  }
}
