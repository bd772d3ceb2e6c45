import { err, ok } from '../../lib/result.ts'
import { startListener } from '../listener/listener.ts'
import { peerCertificate } from '../listener/peer-chain.ts'
import { createMetricsApp } from './create-app.ts'
import type { Listener, ListenerPlace } from '../listener/listener.ts'
import type { Admit } from '../listener/transports.ts'
import type { MetricsDependencies } from './dependencies.ts'

export type MetricsApiOptions = ListenerPlace & {
  readonly dependencies: MetricsDependencies
  /** The common names that may read. */
  readonly commonNames: readonly string[]
}

/** Serves metrics. Throws TlsFilesUnusable, or the error of listen(2). */
export function createMetricsApi(options: MetricsApiOptions): Promise<Listener> {
  const { dependencies, commonNames, ...place } = options
  return startListener({
    ...place,
    createApp: (transport) => createMetricsApp(dependencies, transport),
    admit: admitReader(commonNames),
    beginsUpgrade: () => false,
    onConnection: (socket, isRevoked) => {
      const { certificate_name: name = '' } = peerCertificate(socket)
      if (commonNames.includes(name)) dependencies.onReader?.(socket, isRevoked)
    },
    version: dependencies.version,
    log: dependencies.log,
  })
}

/** Admits a peer whose certificate has one of these names. */
const admitReader =
  (commonNames: readonly string[]): Admit =>
  (name) =>
    name !== undefined && commonNames.includes(name)
      ? ok(name)
      : err({
          code: 'forbidden',
          detail: 'the client certificate does not have a common name that may read metrics',
        })
