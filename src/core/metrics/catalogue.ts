import { daemonMetrics } from './daemon-metrics.ts'
import { hostMetrics } from './host-metrics.ts'
import { vmMetrics } from './vm-metrics.ts'
import type { Metric } from './metric.ts'

/** Every metric, in the order in which it is exposed and documented. */
export const metrics = { ...daemonMetrics, ...hostMetrics, ...vmMetrics } as const

export const allMetrics: readonly Metric[] = Object.values(metrics)

/** Returns the most series that one VM adds. */
export const seriesPerVm = (): number =>
  allMetrics.reduce((sum, { bound }) => sum + ('perVm' in bound ? bound.perVm : 0), 0)
