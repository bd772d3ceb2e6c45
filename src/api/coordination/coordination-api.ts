import { parseNodeName } from '../../core/migration/offer.ts'
import { err, ok } from '../../lib/result.ts'
import { limits } from '../../config/limits.ts'
import { ConnectionCounts } from '../listener/client-bounds.ts'
import { startListener } from '../listener/listener.ts'
import { createApp } from '../listener/create-app.ts'
import { healthRoutes } from '../listener/health.ts'
import { referenceRoutes } from '../listener/reference.ts'
import { given } from '../../lib/given.ts'
import { coordinationSchemas } from '../wire/named.ts'
import { migrationRoutes } from './migrations.ts'
import type { Listener, ListenerPlace } from '../listener/listener.ts'
import type { Admit } from '../listener/transports.ts'
import type { CoordinationDependencies } from './dependencies.ts'
import type { App, Transport } from '../listener/app.ts'
import type { ApiDescription } from '../listener/openapi.ts'

type CoordinationApiOptions = ListenerPlace & {
  readonly dependencies: CoordinationDependencies
  /**
   * Common names of clients of the controller API and of readers of metrics, which are not nodes:
   * one authority may sign all.
   */
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
    onCertificates: ({ refused, revocations }) => {
      dependencies.watchLists?.(revocations)
      dependencies.noteFiles?.(refused)
    },
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

const DOCUMENT_PATH = '/docs/coordination.json'

/** Creates the coordination API on a transport, ready but not listening. */
export const createCoordinationApp = (
  dependencies: CoordinationDependencies,
  transport: Transport,
): Promise<App> =>
  createApp({
    transport,
    description: describeCoordination(dependencies.version),
    reference: DOCUMENT_PATH,
    schemas: coordinationSchemas,
    peerField: 'node',
    bodyBytesMax: limits.coordinationBodyBytesMax,
    addRoutes(routes) {
      healthRoutes(routes, dependencies)
      migrationRoutes(routes, dependencies)
      referenceRoutes(routes, {
        documentPath: DOCUMENT_PATH,
        errorsMarkdown: dependencies.errorsMarkdown,
      })
    },
    ...given({ onAnswered: dependencies.onAnswered }),
    log: dependencies.log,
  })

const DESCRIPTION = `Other hosts take VMs from this one. The controller offers a VM to one node; that node then pulls the VM from here.

**The source decides.** The stage of a migration is on its disk before an answer reports it. From \`released\` on only the destination
may run the guest, in every other stage only the source.

Repeating any request is safe. Who asks is the common name of the client certificate. For a node that an offer does not name, the
migration does not exist.

Errors are \`application/problem+json\`; decide on \`code\`, and see [all codes](/docs/errors). Unknown members, wrong types and
unknown query parameters are refused. Bodies have at most 4 KiB. Times are RFC 3339 in UTC.`

/** Returns the parts of the OpenAPI document that routes do not have. */
const describeCoordination = (version: string): ApiDescription => ({
  title: 'vmhostd coordination',
  version,
  text: DESCRIPTION,
  tags: [
    { name: 'Migrations', description: 'VMs that this host offers to other hosts.' },
    { name: 'Health', description: 'The health of the daemon itself.' },
    { name: 'Documentation', description: 'The documentation of this API.' },
  ],
  certificate: 'A client certificate of a node. Its common name is the name of that node.',
})
