import { createCoordinationApi } from '../api/coordination/coordination-api.ts'
import { bareAddress } from '../config/config.ts'
import { given } from '../lib/given.ts'
import { bindInWords } from './bind-fault.ts'
import { RetriedListener } from './retried-listener.ts'
import { tlsFilesOf } from './tls-files-of.ts'
import type { CoordinationDependencies } from '../api/coordination/dependencies.ts'
import type { Config } from '../config/config.ts'

type CoordinationOptions = {
  readonly dependencies: CoordinationDependencies
  readonly config: Pick<Config, 'controller' | 'coordination' | 'metrics'>
  /** Interval of tries, and of looks at the certificate files; for tests. */
  readonly retryMs?: number
}

/** Opens the listener for other hosts. */
export function openCoordinationListener({
  dependencies,
  config: { controller, coordination, metrics },
  retryMs,
}: CoordinationOptions): Promise<RetriedListener> {
  const { listenAddress, port } = coordination
  const log = dependencies.log.child({ listener: 'coordination' })
  return RetriedListener.open({
    address: listenAddress,
    log,
    without: 'no listener for other hosts, which can take no VM from this one; trying again',
    start: () =>
      bindInWords({ table: 'coordination', address: listenAddress, port }, () =>
        createCoordinationApi({
          dependencies: { ...dependencies, log },
          address: bareAddress(listenAddress),
          port,
          clientNames: new Set([
            controller.commonName,
            ...controller.clients.map(({ commonName }) => commonName),
            ...metrics.commonNames,
          ]),
          tlsFiles: tlsFilesOf(coordination),
          ...given({ certificateRecheckMs: retryMs }),
        }),
      ),
    ...given({ retryMs }),
  })
}
