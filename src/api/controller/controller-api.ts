import { err, ok } from '../../lib/result.ts'
import { startListener } from '../listener/listener.ts'
import { createControllerApp } from './create-app.ts'
import { CertificateEnds, noteInUse } from './certificate-ends.ts'
import { beginsUpgrade } from './upgrade.ts'
import type { Listener, ListenerPlace } from '../listener/listener.ts'
import type { Admit } from '../listener/transports.ts'
import type { NodeFiles } from './certificate-ends.ts'
import type { ApiDependencies } from './dependencies.ts'

export type ControllerApiOptions = ListenerPlace & {
  readonly dependencies: ApiDependencies
  /** The one common name that is let in. */
  readonly commonName: string
  readonly nodeFiles: NodeFiles
}

/** Serves the controller API. Throws TlsFilesUnusable, or the error of listen(2). */
export async function createControllerApi(options: ControllerApiOptions): Promise<Listener> {
  const { dependencies, commonName, nodeFiles, ...place } = options
  const { log } = dependencies
  const ends = new CertificateEnds(log)
  return startListener({
    ...place,
    createApp: (transport) =>
      createControllerApp({ ...dependencies, certificates: () => ends.list() }, transport),
    admit: admitController(commonName),
    beginsUpgrade,
    onCertificates: noteInUse(ends, nodeFiles),
    onConnection(socket) {
      // A controller may renew its certificate on a schedule of its own. A resumed session may come without one.
      const end = socket.getPeerX509Certificate()?.validToDate.getTime()
      if (end !== undefined) ends.set('controller', end)
    },
    log,
  })
}

/** Admits only the peer with exactly this common name. */
const admitController =
  (commonName: string): Admit =>
  (name) =>
    name === commonName
      ? ok(name)
      : err({
          code: 'forbidden',
          detail:
            'the client certificate does not have the common name that is configured for the controller',
        })
