import { bindControllerApi } from '../api/controller/controller-api.ts'
import { clientsOf } from '../api/controller/clients.ts'
import { bareAddress } from '../config/config.ts'
import { build } from './build.ts'
import { tlsFilesOf } from './tls-files-of.ts'
import { createCoordinationApi } from '../api/coordination/coordination-api.ts'
import { given } from '../lib/given.ts'
import { RetriedListener } from './retried-listener.ts'
import { createMetricsApi } from '../api/metrics/metrics-api.ts'
import { TlsFilesUnusable } from '../api/listener/tls-files.ts'
import { isIPv6 } from 'node:net'
import { errnoOf } from '../host/ffi/errno-error.ts'
import type { BoundControllerApi } from '../api/controller/controller-api.ts'
import type { Listener } from '../api/listener/listener.ts'
import type { Config } from '../config/config.ts'
import type { Log } from '../log/log.ts'
import type { CoordinationDependencies } from '../api/coordination/dependencies.ts'
import type { MetricsDependencies } from '../api/metrics/metrics-api.ts'

/** Binds the listener for the controller. Throws an error that says what the operator can fix. */
export async function bindControllerListener(
  { controller, coordination }: Pick<Config, 'controller' | 'coordination'>,
  log: Log,
): Promise<BoundControllerApi> {
  const { listenAddress: address, port, commonName, clients } = controller
  const bound = await bindInWords({ table: 'controller', address, port }, () =>
    bindControllerApi({
      address: bareAddress(address),
      port,
      clients: clientsOf(commonName, clients),
      tlsFiles: tlsFilesOf(controller),
      nodeFiles: {
        certificate: coordination.certificateFile,
        ...(coordination.caFile === controller.caFile ? {} : { authority: coordination.caFile }),
      },
      version: build.version,
      log,
    }),
  )
  log.info({ listener: 'controller', address: bound.address, port: bound.port }, 'listening')
  return bound
}

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
        createNoted({
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

type MetricsListenerOptions = {
  readonly dependencies: MetricsDependencies
  readonly config: Pick<Config, 'controller' | 'metrics'>
}

/** Creates the API. Certificate files that keep it from that are noted, as those are that are refused later. */
async function createNoted(options: Parameters<typeof createCoordinationApi>[0]): Promise<Listener> {
  try {
    return await createCoordinationApi(options)
  } catch (error) {
    options.dependencies.noteFiles?.(error instanceof TlsFilesUnusable ? error : undefined)
    throw error
  }
}

/** Opens the listener for readers of metrics. It has the files of the controller listener. */
export function openMetricsListener({
  dependencies,
  config: { controller, metrics },
}: MetricsListenerOptions): Promise<RetriedListener> {
  const { listenAddress, port, commonNames } = metrics
  const log = dependencies.log.child({ listener: 'metrics' })
  return RetriedListener.open({
    address: listenAddress,
    log,
    without: 'no listener for metrics, which monitoring cannot read; trying again',
    start: () =>
      bindInWords({ table: 'metrics', address: listenAddress, port }, () =>
        createMetricsApi({
          dependencies: { ...dependencies, log },
          address: bareAddress(listenAddress),
          port,
          commonNames,
          tlsFiles: tlsFilesOf(controller),
        }),
      ),
  })
}

/** A listener of the configuration, by the name of its table. */
type ListenerTable = {
  readonly table: 'controller' | 'coordination' | 'metrics'
  readonly address: string
  readonly port: number
}

/** Runs what binds a listener. Throws an error that names what the operator can fix, or the one of `bind`. */
async function bindInWords<T>(place: ListenerTable, bind: () => Promise<T>): Promise<T> {
  try {
    return await bind()
  } catch (cause) {
    const words = bindFault(errnoOf(cause), place)
    throw words === undefined ? cause : new Error(words, { cause })
  }
}

function bindFault(errno: string | undefined, { table, address, port }: ListenerTable): string | undefined {
  const family = isIPv6(bareAddress(address)) ? 'IPv6' : 'IPv4'
  switch (errno) {
    case 'EADDRINUSE':
      return `another program has port ${port} of ${address}: end it if it is another vmhostd, or set ${table}.port`
    case 'EADDRNOTAVAIL':
      return `${address} is not an address of this host: give it to the host, or set ${table}.listen_address to one that it has`
    case 'EAFNOSUPPORT':
      return `this host has no ${family}, but ${address} is of it: boot it with ${family}, or set ${table}.listen_address to an address that it has`
    case undefined:
    default:
      return undefined
  }
}
