import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { VmId } from '../../core/ids.ts'
import type { CollectorName } from '../../core/metrics/label-values.ts'
import type { Probe } from '../../core/world/world.ts'
import type { Log } from '../../log/log.ts'

/** Why a collector does not know everything: the first cause that it met. */
export type Gap = {
  /** Distinguishes causes; a text may have numbers that change. */
  readonly code: string
  readonly because: string
  readonly vmId?: VmId
}

const OVERRUN: Gap = { code: 'overrun', because: `no answer within ${limits.metricsLookMs / 1000} s` }

/** Takes a look, and returns the gap that it leaves if it throws a HostFault. */
export async function gapOf(
  look: () => Promise<Gap | undefined | void>,
  vmId?: VmId,
): Promise<Gap | undefined> {
  try {
    return (await look()) ?? undefined
  } catch (error) {
    if (!(error instanceof HostFault)) throw error
    return { code: error.code, because: errorChain(error), ...(vmId === undefined ? {} : { vmId }) }
  }
}

/** Returns the first of these that is not known. */
export function gapIn(...probes: readonly Probe<unknown>[]): Gap | undefined {
  for (const probe of probes) if (!probe.known) return { code: probe.code, because: probe.message }
  return undefined
}

/** Logs why figures are absent: each cause once, until the collector knows everything again. */
export class GapLog {
  readonly #log: Log
  readonly #logged = new Map<CollectorName, Set<string>>()

  constructor(log: Log) {
    this.#log = log
  }

  found(collector: CollectorName, { code, because, vmId }: Gap): void {
    const logged = this.#logged.get(collector) ?? new Set()
    this.#logged.set(collector, logged)
    const cause = `${vmId ?? ''} ${code}`
    if (logged.has(cause)) return
    logged.add(cause)
    const ofVm = vmId === undefined ? {} : { vm_id: vmId }
    this.#log.warn({ ...ofVm, collector, error: because }, 'metrics not measured')
  }

  /** Notes that a scrape ended before the collector did. */
  overran(collector: CollectorName): void {
    this.found(collector, OVERRUN)
  }

  /** Notes that a collector knows everything. */
  closed(collector: CollectorName): void {
    this.#logged.delete(collector)
  }
}
