import { limits } from '../../config/limits.ts'
import { allMetrics, metrics } from '../../core/metrics/catalogue.ts'
import type { Activity } from './activity.ts'
import { collectConsoles, collectHost, collectLedger, collectStaging } from './collect-host.ts'
import { collectCpu, collectMemory, collectNetwork, DiskLooks } from './collect-usage.ts'
import { collectVms } from './collect-vms.ts'
import { exposition } from './exposition.ts'
import { GapLog, gapOf } from './gaps.ts'
import { LoopDelay } from './loop-delay.ts'
import { Samples } from './samples.ts'
import { HOST_FAULT_CODES } from '../../core/metrics/label-values.ts'
import type { Hindrance } from '../../core/errors.ts'
import type { CollectorName } from '../../core/metrics/label-values.ts'
import type { Log } from '../../log/log.ts'
import type { Clock } from '../../ports/clock.ts'
import type { HostSources } from './collect-host.ts'
import type { UsageSources } from './collect-usage.ts'
import type { Gap } from './gaps.ts'

/** A certificate, by the name that a reader knows it by. */
export type CertificateTime = { readonly name: string; readonly notAfterMs: number }

/** Figures of the daemon's own process. */
export type OwnProcess = {
  readonly startedAtMs: number
  readonly cpuMicroseconds: () => number
  readonly residentBytes: () => number
  readonly openFiles: () => number | undefined
  readonly openFilesMax: number | undefined
  readonly pendingTimers: () => number
}

export type MetricsOptions = HostSources &
  UsageSources & {
    readonly activity: Activity
    readonly certificates: () => readonly CertificateTime[]
    /** Revocation lists by listener. */
    readonly nextUpdates: () => readonly { readonly listener: string; readonly nextUpdateMs: number }[]
    /** Faults of the host itself. */
    readonly hostFaults: () => readonly Hindrance[]
    readonly isReady: () => boolean
    readonly ownProcess: OwnProcess
    readonly version: string
    readonly clock: Clock
    readonly log: Log
  }

/** Returns what is not known, or throws HostFault; nothing means that everything is known. */
type Collect = (samples: Samples) => Promise<Gap | undefined | void>

/** One answer for several readers. */
type Scrape = {
  readonly text: Promise<string>
  /** When the text was complete, by a clock that is never set; undefined until then. */
  endedMs?: number
}

/**
 * Serves the metrics of this host: takes a look for each scrape, and adds what was counted since the daemon started.
 */
export class Metrics {
  readonly activity: Activity
  readonly #options: MetricsOptions
  readonly #collectors: readonly (readonly [CollectorName, Collect])[]
  readonly #loop: LoopDelay
  readonly #underWay = new Set<CollectorName>()
  readonly #gaps: GapLog
  #last: Scrape | undefined

  constructor(options: MetricsOptions) {
    this.#options = options
    this.activity = options.activity
    this.#gaps = new GapLog(options.log)
    this.#loop = new LoopDelay(options.clock, (ms) => this.activity.loopDelayed(ms))
    const disks = new DiskLooks()
    const { store } = options
    this.#collectors = [
      ['host', (samples) => collectHost(options, samples)],
      ['ledger', (samples) => collectLedger(options, samples)],
      ['consoles', (samples) => collectConsoles(options, samples)],
      ['staging', (samples) => collectStaging(options, samples)],
      ['vms', (samples) => collectVms(store, samples)],
      ['vm_cpu', (samples) => collectCpu(options, samples)],
      ['vm_memory', (samples) => collectMemory(options, samples)],
      ['vm_network', (samples) => collectNetwork(options, samples)],
      ['vm_disk', (samples) => disks.collect(options, samples)],
    ]
  }

  /** Begins to measure the delay of the event loop. */
  start(): void {
    this.#loop.start()
  }

  stop(): void {
    this.#loop.stop()
  }

  /**
   * Returns the metrics as text: that of the scrape under way, or of one that ended less than `limits.metricsAgeMsMax`
   * ago. Two scrapes never run at once, because each would lack what the other waits for. Never fails because of the
   * host.
   */
  scrape(): Promise<string> {
    const { clock } = this.#options
    const endedMs = this.#last?.endedMs
    const isOld = endedMs !== undefined && clock.monotonicMs() - endedMs >= limits.metricsAgeMsMax
    if (this.#last !== undefined && !isOld) return this.#last.text
    const last: Scrape = {
      text: this.#take().finally(() => {
        last.endedMs = clock.monotonicMs()
      }),
    }
    this.#last = last
    return last.text
  }

  async #take(): Promise<string> {
    const samples = new Samples()
    const known = new Map<CollectorName, boolean>()
    const collecting = Promise.all(
      this.#collectors.map(async ([name, collect]) =>
        known.set(name, await this.#run(name, collect, samples)),
      ),
    )
    await this.#within(limits.metricsLookMs, collecting)
    for (const [name] of this.#collectors) {
      if (!known.has(name)) this.#gaps.overran(name)
      samples.add(metrics.collectorSuccess, known.get(name) === true ? 1 : 0, { collector: name })
    }
    this.#addOwn(samples)
    samples.close()
    return exposition(allMetrics, samples, this.activity.counts)
  }

  /** Runs a collector, unless its last run still waits for the host. Returns whether everything is known. */
  async #run(name: CollectorName, collect: Collect, samples: Samples): Promise<boolean> {
    // Each monitor has its own mark of an open question.
    if (name !== 'vm_disk' && this.#underWay.has(name)) return false
    this.#underWay.add(name)
    try {
      const gap = await gapOf(() => collect(samples))
      if (gap !== undefined) this.#gaps.found(name, gap)
      // What comes after the end of its scrape is not in the metrics.
      else if (!samples.isClosed) this.#gaps.closed(name)
      return gap === undefined
    } catch (error) {
      this.#options.log.error({ error, collector: name }, 'metrics failed')
      return false
    } finally {
      this.#underWay.delete(name)
    }
  }

  async #within(ms: number, work: Promise<unknown>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#options.clock.after(ms, resolve)
    await Promise.race([work, promise])
    cancel()
  }

  #addOwn(samples: Samples): void {
    const { version, isReady, hostFaults, certificates, nextUpdates, ownProcess } = this.#options
    samples.add(metrics.build, 1, { version })
    samples.add(metrics.ready, isReady() ? 1 : 0)
    const faults = new Set(hostFaults().map(({ code }) => code))
    for (const code of HOST_FAULT_CODES) samples.add(metrics.hostFault, faults.has(code) ? 1 : 0, { code })
    samples.add(metrics.processStart, ownProcess.startedAtMs / 1000)
    samples.add(metrics.processCpu, ownProcess.cpuMicroseconds() / 1e6)
    samples.add(metrics.processMemory, ownProcess.residentBytes())
    samples.add(metrics.processOpenFiles, ownProcess.openFiles())
    samples.add(metrics.processOpenFilesMax, ownProcess.openFilesMax)
    samples.add(metrics.timers, ownProcess.pendingTimers())
    for (const { name, notAfterMs } of certificates())
      samples.add(metrics.certificateEnd, notAfterMs / 1000, { certificate: name })
    for (const { listener, nextUpdateMs } of nextUpdates())
      samples.add(metrics.revocationDue, nextUpdateMs / 1000, { listener })
  }
}
