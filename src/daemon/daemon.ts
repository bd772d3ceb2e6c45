import { limits } from '../config/limits.ts'
import { systemClock } from '../host/system-clock.ts'
import { poolIdOf } from '../host/pool/pool-marker.ts'
import { isHostShuttingDown } from '../host/systemd/host-shutdown.ts'
import { findOwnUnit, forgetRestarts } from '../host/systemd/own-unit.ts'
import { notifyReady, notifyStarting, notifyStopping } from '../host/systemd/sd-notify.ts'
import { startWatchdog } from '../host/systemd/watchdog.ts'
import { FileFlusher } from '../host/threads/file-flusher.ts'
import { errorChain } from '../log/error-chain.ts'
import { newOperationId, warnOfFault } from '../log/log.ts'
import { takeConsoleCensus } from '../owners/console/console-census.ts'
import { sweepUntilDone } from '../reconcile/sweep-orphans.ts'
import { Store } from '../store/store.ts'
import { userIdRangeOf } from '../store/vm/user-ids.ts'
import { openAdminSocket } from './admin-socket.ts'
import { reportAdoption } from './adoption-report.ts'
import { flushThreadSource } from './assets.ts'
import { build } from './build.ts'
import { endAtOnce, endWork, checkThreads, guestsTimes } from './daemon-process.ts'
import { buildHost } from './build-host.ts'
import { compose } from './compose.ts'
import { bindControllerListener, openCoordinationListener, openMetricsListener } from './listeners.ts'
import { returnMemoryUntil } from './returned-memory.ts'
import type { BoundControllerApi } from '../api/controller/controller-api.ts'
import type { Listener } from '../api/listener/listener.ts'
import type { Config } from '../config/config.ts'
import type { Log } from '../log/log.ts'
import type { GuestsAtShutdown } from '../core/plan/facet.ts'
import type { BuiltHost } from './build-host.ts'
import type { RetriedListener } from './retried-listener.ts'
import type { Composition } from './compose.ts'

/** Tasks that readiness waits for, as the operator sees them. */
const CONSOLES = 'console adoption'
const FIRST_LOOK = 'first looks at VMs'

/** The running daemon: starts and stops its parts in the right order. */
export class Daemon {
  readonly #config: Config
  readonly #log: Log
  readonly #store: Store
  readonly #built: BuiltHost
  readonly #parts: Composition
  readonly #ending = new AbortController()
  readonly #waitingFor = new Set([CONSOLES, FIRST_LOOK])
  #api: Listener | undefined
  #coordination: RetriedListener | undefined
  #metricsListener: RetriedListener | undefined
  #admin: RetriedListener | undefined
  #watchdog: ReturnType<typeof startWatchdog> | undefined

  private constructor(config: Config, log: Log, made: { store: Store; built: BuiltHost }) {
    this.#config = config
    this.#log = log
    this.#store = made.store
    this.#built = made.built
    const { host, figures, shells, probes, descriptorStore } = made.built
    this.#parts = compose({
      store: made.store,
      host,
      figures,
      shells,
      probes,
      isDescriptorStoreAvailable: async () => (await descriptorStore.check()).available,
      settings: config,
      readiness: {
        waitingFor: () => [...this.#waitingFor],
        takesCommands: () => !this.#waitingFor.has(CONSOLES),
      },
      newOperationId,
      version: build.version,
      log,
    })
  }

  /**
   * Binds first, and resolves when the API is served; adoption goes on after that. Throws an error that says what the
   * operator can fix.
   */
  static async start(config: Config, log: Log): Promise<Daemon> {
    log.info({ version: build.version, commit: build.commit, node: process.version }, 'vmhostd starting')
    const bound = await bindControllerListener(config, log)
    try {
      return await Daemon.#startBehind(bound, config, log)
    } catch (error) {
      bound.close()
      throw error
    }
  }

  static async #startBehind(bound: BoundControllerApi, config: Config, log: Log): Promise<Daemon> {
    checkThreads(log)
    const flusher = new FileFlusher(flushThreadSource)
    const store = new Store(config.stateDirectory, userIdRangeOf(config.vms), {
      datasync: (fd) => flusher.datasync(fd),
      onFlushFailed: (error) => endAtOnce(log, error, 'the records cannot be flushed'),
      nowMs: Date.now(),
      after: (ms, callback) => systemClock.after(ms, callback),
      onUpgrade: () => {
        log.info({ within_ms: limits.upgradeMs }, 'changing the records of an earlier version')
        // The copy and the change take all of the event loop, and must not be ended half done, and begun again.
        notifyStarting(limits.upgradeMs)
      },
    })
    try {
      const poolId = await knownPool(store, config)
      await store.flushed()
      const daemon = new Daemon(config, log, { store, built: await buildHost(config, store, poolId, log) })
      await daemon.#serve(bound)
      void daemon.#takeOver()
      return daemon
    } catch (error) {
      store.close()
      throw error
    }
  }

  async #serve(bound: BoundControllerApi): Promise<void> {
    this.#api = await bound.serve(this.#parts.api)
    if (this.#config.coordination.enabled)
      this.#coordination = await openCoordinationListener({
        dependencies: this.#parts.coordination,
        config: this.#config,
      })
    if (this.#config.metrics.enabled)
      this.#metricsListener = await openMetricsListener({
        dependencies: this.#parts.metricsDependencies,
        config: this.#config,
      })
    this.#admin = await openAdminSocket({
      runDirectory: this.#config.runDirectory,
      answers: {
        plan: (id) => this.#parts.explain(id),
        console: async (id) => {
          if (this.#store.vms.get(id) === undefined) return undefined
          return this.#built.consoles.lastSession(id)?.output.since(0).bytes ?? ''
        },
      },
      log: this.#log,
    })
  }

  /**
   * Adopts what lives on this host, then starts to act on it. Removes nothing before it has seen everything. Starts no
   * part that a stop has stopped meanwhile.
   */
  async #takeOver(): Promise<void> {
    const { signal: ending } = this.#ending
    const adopted = await this.#built.consoles.adopt()
    notifyReady()
    this.#watchdog = startWatchdog()
    // Before commands are accepted, because they rely on what the inspection finds.
    await this.#parts.inspector.start()
    this.#waitingFor.delete(CONSOLES)
    await this.#report(adopted)
    if (ending.aborted) return
    await this.#parts.reconciler.start()
    if (ending.aborted) return
    this.#waitingFor.delete(FIRST_LOOK)
    this.#parts.snapshots.start()
    this.#parts.offers.start()
    this.#parts.drainer.start()
    this.#parts.guests.start()
    this.#parts.metrics.start()
    this.#parts.source.start()
    void this.#parts.arrivals.start()
    void this.#parts.images.start()
    const { host } = this.#built
    await sweepUntilDone({ store: this.#store, host, log: this.#log }, ending)
    // Later, because requests that waited for the start are answered first.
    if (ending.aborted) return
    returnMemoryUntil(ending)
    const cancel = host.clock.after(limits.restartsForgottenMs, () => void this.#forgetRestarts())
    ending.addEventListener('abort', cancel, { once: true })
  }

  async #forgetRestarts(): Promise<void> {
    const { bus } = this.#built
    try {
      const unit = await findOwnUnit(bus)
      if (unit !== undefined) await forgetRestarts(bus, unit.name)
    } catch (error) {
      const reason = errorChain(error)
      this.#log.warn({ reason }, 'systemd still counts earlier restarts: the next one may come late')
    }
  }

  #report(adopted: number): Promise<void> {
    const { descriptorStore, host } = this.#built
    return reportAdoption(
      {
        adopted,
        check: () => descriptorStore.check(),
        census: () => takeConsoleCensus(host),
        clock: host.clock,
        log: this.#log,
      },
      this.#ending.signal,
    )
  }

  /**
   * Ends the daemon's own work within the configured bound. Leaves guests and their units alone, unless the host shuts
   * down: then the guests are saved first, if the configuration says so.
   */
  async stop(reason: string): Promise<void> {
    const { shutdownBoundSeconds, host } = this.#config
    const { onShutdown, onShutdownSeconds } = host
    // To ask systemd may take as long as the stop itself, and the unit's own bound is short.
    notifyStopping(2 * limits.busCallMs + shutdownBoundSeconds * 1000 + limits.shutdownMarginMs)
    const hostEnds = await this.#hostEnds()
    const shutdownPolicy = hostEnds ? AT_SHUTDOWN[onShutdown] : undefined
    const boundMs = (shutdownPolicy !== undefined ? onShutdownSeconds : shutdownBoundSeconds) * 1000
    const fields = { host_ends: hostEnds, ...(hostEnds ? { on_shutdown: onShutdown } : {}) }
    this.#log.info({ reason, bound_ms: boundMs, ...fields }, 'vmhostd stopping')
    notifyStopping(boundMs + limits.shutdownMarginMs)
    this.#ending.abort()
    const {
      inspector,
      shells,
      images,
      offers,
      drainer,
      guests,
      source,
      arrivals,
      snapshots,
      reconciler,
      metrics,
    } = this.#parts
    inspector.stop()
    metrics.stop()
    offers.stop()
    drainer.stop()
    guests.stop()
    shells.end()
    const work = {
      listener: this.#api?.close(boundMs),
      coordination: this.#coordination?.close(boundMs),
      metrics: this.#metricsListener?.close(boundMs),
      admin: this.#admin?.close(boundMs),
      images: images.stop(),
      snapshots: snapshots.stop(),
      migrations: source.stop(),
      arrivals: arrivals.stop(),
      workers: shutdownPolicy === undefined ? reconciler.stop() : this.#endGuests(shutdownPolicy, boundMs),
    }
    await endWork(work, boundMs, this.#log)
    this.#built.traffic.close()
    this.#built.outbound.close()
    this.#built.sourceHosts.close()
    this.#built.consoles.close()
    this.#built.firewall.close()
    this.#built.figures.close()
    this.#built.bus.close()
    this.#watchdog?.end()
    this.#store.close()
  }

  async #hostEnds(): Promise<boolean> {
    try {
      return await isHostShuttingDown(this.#built.bus)
    } catch (error) {
      warnOfFault(this.#log, error, 'unknown whether the host shuts down')
      return false
    }
  }

  /** Ends the guests as the host shuts down, then stops the workers. */
  async #endGuests(policy: GuestsAtShutdown, boundMs: number): Promise<void> {
    const { reconciler } = this.#parts
    const startedAt = performance.now()
    const { savesMs, waitMs } = guestsTimes(boundMs)
    const signal = AbortSignal.timeout(waitMs)
    const { saved, ended, left } = await reconciler.endWithHost(policy, { savesMs, signal })
    const words = { saved: saved.length, ended: ended.length, ms: Math.round(performance.now() - startedAt) }
    if (left.length === 0) this.#log.info(words, 'guests ready for the shutdown of the host')
    else this.#log.warn({ ...words, left }, 'guests left to end with their units at the shutdown of the host')
    await reconciler.stop()
  }
}

/** The end of guests that run, by the word of the configuration. Undefined: they end with their units. */
const AT_SHUTDOWN: Readonly<Record<Config['host']['onShutdown'], GuestsAtShutdown | undefined>> = {
  save: 'save',
  stop: 'ask',
  kill: undefined,
}

/**
 * Returns the pool that holds this store's disks. The first start takes the pool that set-up marked. Later, a missing
 * pool is a storage fault, which heals when the pool is mounted; the daemon starts all the same.
 */
async function knownPool(store: Store, { storage }: Config): Promise<string> {
  if (store.poolId !== undefined) return store.poolId
  try {
    const poolId = await poolIdOf(storage.poolDirectory)
    store.rememberPool(poolId)
    return poolId
  } catch (cause) {
    throw new Error(`${storage.poolDirectory} is not a storage pool yet: run "vmhostd setup"`, { cause })
  }
}
