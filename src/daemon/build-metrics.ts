import { availableMibIn } from '../host/figures/host-features.ts'
import { ownProcess } from '../host/figures/own-process.ts'
import { Metrics } from '../owners/metrics/metrics.ts'
import { readAsset } from './assets.ts'
import type { Hindrance } from '../core/errors.ts'
import type { CertificateEnds } from '../api/controller/certificate-ends.ts'
import type { MetricsDependencies } from '../api/metrics/metrics-api.ts'
import type { HostInspector } from '../owners/capacity/host-inspector.ts'
import type { Activity } from '../owners/metrics/activity.ts'
import type { Log } from '../log/log.ts'
import type { Host } from '../ports/host.ts'
import type { Store } from '../store/store.ts'

type MetricsParts = {
  readonly store: Store
  readonly host: Host
  readonly readiness: { readonly waitingFor: () => readonly string[] }
  readonly isDescriptorStoreAvailable: () => Promise<boolean>
  readonly version: string
  readonly log: Log
}

/** Builds what the listener for metrics serves. */
export const buildMetricsDependencies = (
  { readiness, version, log }: Pick<MetricsParts, 'readiness' | 'version' | 'log'>,
  { metrics, certificates }: { readonly metrics: Metrics; readonly certificates: CertificateEnds },
): MetricsDependencies => ({
  metrics,
  waitingFor: readiness.waitingFor,
  errorsMarkdown: () => readAsset('errors.md'),
  onAnswered: (answer) => metrics.activity.answered({ listener: 'metrics', ...answer }),
  onReader: (socket, isRevoked) => certificates.clients.noteSocket(socket, 'metrics', isRevoked),
  version,
  log,
})

/** Builds the metrics of this host. */
export function buildMetrics(
  { store, host, readiness, version, isDescriptorStoreAvailable, log }: MetricsParts,
  {
    activity,
    inspector,
    certificates,
    hostFaults,
  }: {
    readonly activity: Activity
    readonly inspector: HostInspector
    readonly certificates: CertificateEnds
    readonly hostFaults: () => readonly Hindrance[]
  },
): Metrics {
  const { units, consoles, staging, taps, firewall, monitors, clock } = host
  return new Metrics({
    activity,
    inspector,
    certificates: () => certificates.list(),
    nextUpdates: () => certificates.nextUpdates(),
    hostFaults,
    isReady: () => readiness.waitingFor().length === 0,
    ownProcess,
    availableMibIn,
    isDescriptorStoreAvailable,
    ...{ store, units, consoles, staging, taps, firewall, monitors },
    clock,
    version,
    log,
  })
}
