import { parseNodeName } from '../../core/migration/offer.ts'
import { err, ok } from '../../lib/result.ts'
import { limits } from '../../config/limits.ts'
import { ConnectionCounts } from '../listener/connection-counts.ts'
import { startListener } from '../listener/listener.ts'
import { createCoordinationApp } from './create-app.ts'
import type { Listener, ListenerPlace } from '../listener/listener.ts'
import type { Admit } from '../listener/transports.ts'
import type { CoordinationDependencies } from './dependencies.ts'

export type CoordinationApiOptions = ListenerPlace & {
  readonly dependencies: CoordinationDependencies
  /** Common names of clients of the controller API and of readers of metrics, which are not nodes: one authority may sign all. */
  readonly clientNames: ReadonlySet<string>
}

/** Serves the coordination API. Throws TlsFilesUnusable, or the error of listen(2). */
export function createCoordinationApi(options: CoordinationApiOptions): Promise<Listener> {
  const { dependencies, clientNames, ...place } = options
  const connections = new ConnectionCounts(limits.connectionsOfNodeMax)
  return startListener({
    ...place,
    createApp: (transport) => createCoordinationApp(dependencies, transport),
    admit: admitNode(clientNames),
    hasRoom: (name = '', socket) => connections.admit(name, socket),
    beginsUpgrade: () => false,
    onCertificates: (_inUse, revocations) => dependencies.watchLists?.(revocations),
    version: dependencies.version,
    log: dependencies.log,
  })
}

/** Admits a peer whose certificate has the name of a node. */
const admitNode =
  (clientNames: ReadonlySet<string>): Admit =>
  (commonName) => {
    const node = clientNames.has(commonName ?? '') ? undefined : parseNodeName(commonName ?? '')
    if (node !== undefined) return ok(node)
    return err({
      code: 'forbidden',
      detail:
        'the client certificate is not one of a node: it needs one common name, of letters, digits, dots, hyphens and underscores, that is not ' +
        'that of the controller or of another client',
    })
  }
