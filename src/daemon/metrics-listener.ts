import { createMetricsApi } from '../api/metrics/metrics-api.ts'
import { bareAddress } from '../config/config.ts'
import { given } from '../lib/given.ts'
import { bindInWords } from './bind-fault.ts'
import { RetriedListener } from './retried-listener.ts'
import { tlsFilesOf } from './tls-files-of.ts'
import type { MetricsDependencies } from '../api/metrics/metrics-api.ts'
import type { Config } from '../config/config.ts'

type MetricsListenerOptions = {
  readonly dependencies: MetricsDependencies
  readonly config: Pick<Config, 'controller' | 'metrics'>
  /** Interval of tries, and of looks at the certificate files; for tests. */
  readonly retryMs?: number
}

/** Opens the listener for readers of metrics. It has the files of the controller listener. */
export function openMetricsListener({
  dependencies,
  config: { controller, metrics },
  retryMs,
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
          ...given({ certificateRecheckMs: retryMs }),
        }),
      ),
    ...given({ retryMs }),
  })
}
