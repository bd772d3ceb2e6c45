import { createControllerApi } from '../api/controller/controller-api.ts'
import { Waits } from '../api/controller/waits.ts'
import { bareAddress } from '../config/config.ts'
import { limits } from '../config/limits.ts'
import { wakeVm } from '../commands/wake-vm.ts'
import { poolIdOf } from '../host/pool/pool-marker.ts'
import { notifyReady, notifyStopping } from '../host/systemd/notify.ts'
import { FileFlusher } from '../host/threads/file-flusher.ts'
import { newOperationId } from '../log/operation-id.ts'
import { explain, planFor } from '../reconcile/explain.ts'
import { readCounters } from '../reconcile/observe/read-counters.ts'
import { ConsoleHub } from '../owners/console-hub.ts'
import { takeConsoleCensus } from '../owners/console-census.ts'
import { HostInspector } from '../owners/host-inspector.ts'
import { HostReport } from '../owners/host-report.ts'
import { ImageShelf } from '../owners/image-shelf.ts'
import { Snapshots } from '../owners/snapshots/snapshots.ts'
import { SshSessions } from '../owners/ssh-sessions.ts'
import { Reconciler } from '../reconcile/reconciler.ts'
import { sweepOrphans } from '../reconcile/sweep-orphans.ts'
import { Store } from '../store/store.ts'
import { openAdminSocket } from './admin-socket.ts'
import { reportAdoption } from './adoption-report.ts'
import { flushThreadSource, readAsset } from './assets.ts'
import { build } from './build.ts'
import { endWork } from './end-work.ts'
import { checkThreads } from './check-threads.ts'
import { buildHost, outboundPolicyOf } from './build-host.ts'
import type { Server } from 'node:http'
import type { ExplainContext } from '../reconcile/explain.ts'
import type { ControllerApi } from '../api/controller/controller-api.ts'
import type { CommandContext } from '../commands/context.ts'
import type { Config } from '../config/config.ts'
import type { VmId } from '../core/vm/ids.ts'
import type { Log } from '../log/log.ts'
import type { PassContext } from '../reconcile/progress.ts'
import type { BuiltHost } from './build-host.ts'

/** What readiness waits for, in words for the operator. */
const CONSOLES = 'console adoption'
const FIRST_LOOK = 'a first look at every VM'

/** The running daemon: what is started, in which order, and how it ends. */
export class Daemon {
  readonly #config: Config
  readonly #log: Log
  readonly #store: Store
  readonly #built: BuiltHost
  readonly #reconciler: Reconciler
  readonly #inspector: HostInspector
  readonly #images: ImageShelf
  readonly #snapshots: Snapshots
  readonly #shells: SshSessions
  readonly #ending = new AbortController()
  readonly #waitingFor = new Set([CONSOLES, FIRST_LOOK])
  #api: ControllerApi | undefined
  #admin: Server | undefined

  private constructor(config: Config, log: Log, made: { store: Store; built: BuiltHost }) {
    this.#config = config
    this.#log = log
    this.#store = made.store
    this.#built = made.built
    this.#reconciler = new Reconciler(this.#passContext)
    this.#inspector = this.#buildInspector()
    this.#images = this.#buildImages()
    this.#snapshots = this.#buildSnapshots()
    const { shells, host } = made.built
    const wake = (id: VmId): void => wakeVm(this.#commandContext, id, 'console')
    this.#shells = new SshSessions({ shells, store: made.store, clock: host.clock, wake, log })
  }

  /** Resolves when the listener answers; adoption goes on after that. Throws what an operator can mend, in words. */
  static async start(config: Config, log: Log): Promise<Daemon> {
    log.info({ version: build.version, commit: build.commit, node: process.version }, 'vmhostd starts')
    checkThreads(log)
    const flusher = new FileFlusher(flushThreadSource)
    const userIds = { first: config.vms.userIdFirst, count: config.vms.userIdCount }
    const store = new Store(config.stateDirectory, userIds, (fd) => flusher.datasync(fd))
    try {
      const poolId = await knownPool(store, config)
      await store.flushed()
      const daemon = new Daemon(config, log, { store, built: await buildHost(config, store, poolId, log) })
      await daemon.#listen()
      void daemon.#takeOver()
      return daemon
    } catch (error) {
      store.close()
      throw error
    }
  }

  get #passContext(): PassContext {
    return { store: this.#store, host: this.#built.host, log: this.#log }
  }

  get #explainContext(): ExplainContext {
    return { store: this.#store, host: this.#built.host, silences: this.#reconciler.silences }
  }

  get #commandContext(): CommandContext {
    const { localImagesDirectory } = this.#config.storage
    return {
      store: this.#store,
      capacity: this.#inspector,
      guestRanges: this.#config.network.guestRanges,
      outbound: outboundPolicyOf(this.#config),
      ...(localImagesDirectory === undefined ? {} : { localImagesDirectory }),
      stagingQuotaMib: () => this.#inspector.stagingQuotaMib(),
      now: () => this.#built.host.clock.now(),
      newOperationId,
      // A disk that cannot flush ends the daemon, as a rejection that nobody handles. Guests live on.
      poke: (id, reason) => void this.#store.flushed().then(() => this.#reconciler.poke(id, reason)),
      pokeSnapshot: (id, asked) => void this.#store.flushed().then(() => this.#snapshots.poke(id, asked)),
    }
  }

  async #listen(): Promise<void> {
    const context = this.#commandContext
    const { controller } = this.#config
    const report = this.#buildReport()
    this.#api = await createControllerApi({
      rooms: {
        waits: new Waits((listener) => this.#store.onVmChange(listener)),
        snapshotWaits: new Waits((listener) => this.#store.onSnapshotChange(listener)),
        plan: (record, inputs) => planFor(this.#explainContext, record, inputs),
        hostView: () => report.take(),
        counters: (record) => readCounters(this.#built.host, record),
        // Before that a VM's stored console would look like none.
        context: () => (this.#waitingFor.has(CONSOLES) ? undefined : context),
        images: this.#images,
        consoles: new ConsoleHub({ consoles: this.#built.host.consoles, store: this.#store }),
        shells: this.#shells,
        time: this.#built.host.clock,
        waitingFor: () => [...this.#waitingFor],
        readAsset,
        version: build.version,
        log: this.#log,
      },
      address: bareAddress(controller.listenAddress),
      port: controller.port,
      commonName: controller.commonName,
      tlsFiles: { ca: controller.caFile, certificate: controller.certificateFile, key: controller.keyFile },
    })
    this.#admin = await openAdminSocket(this.#config.runDirectory, {
      plan: (id) => explain(this.#explainContext, id),
      console: async (id) => {
        if (this.#store.vms.get(id) === undefined) return undefined
        return this.#built.consoles.lastSession(id)?.output.since(0).bytes ?? ''
      },
    })
    this.#log.info({ address: controller.listenAddress, port: this.#api.port }, 'listening')
  }

  #buildInspector(): HostInspector {
    const { figures, host } = this.#built
    return new HostInspector({
      figures,
      clock: host.clock,
      consoles: host.consoles,
      monitorMib: (guestMib) => host.monitor.memoryMib(guestMib),
      vcpusMax: () => host.monitor.capabilities.vcpusMax,
      policy: { ...this.#config.capacity, stagingQuotaMib: this.#config.snapshots.stagingQuotaMib },
      log: this.#log,
      onChange: (change) => this.#reconciler.pokeAll(change),
    })
  }

  #buildImages(): ImageShelf {
    const { storage, clock } = this.#built.host
    const { imageIdleHours: idleHours } = this.#config.storage
    return new ImageShelf({ storage, store: this.#store, clock, idleHours, log: this.#log })
  }

  #buildSnapshots(): Snapshots {
    const { uploadsMax, stagingMaxAgeHours } = this.#config.snapshots
    return new Snapshots({
      store: this.#store,
      host: this.#built.host,
      holdStill: (id, task) => this.#reconciler.holdStill(id, task),
      uploadsMax,
      stagingQuotaMib: () => this.#inspector.stagingQuotaMib(),
      stagingMaxAgeHours,
      log: this.#log,
    })
  }

  #buildReport(): HostReport {
    const { figures, host, descriptorStore } = this.#built
    return new HostReport({
      names: {
        id: this.#config.host.id,
        bootId: host.bootId,
        version: build.version,
        sshPublicKey: host.sshPublicKey,
      },
      inspector: this.#inspector,
      figures,
      units: host.units,
      consoles: host.consoles,
      staging: host.staging,
      isDescriptorStoreAvailable: async () => (await descriptorStore.check()).available,
      store: this.#store,
      clock: host.clock,
    })
  }

  /** Takes over what lives on this host, then begins to act on it; removes nothing before it has seen everything. */
  async #takeOver(): Promise<void> {
    const adopted = this.#built.consoles.adopt()
    notifyReady()
    // Before commands are taken: what it finds is what they may promise.
    await this.#inspector.start()
    this.#waitingFor.delete(CONSOLES)
    await this.#report(adopted)
    await this.#reconciler.start()
    this.#waitingFor.delete(FIRST_LOOK)
    this.#snapshots.start()
    void this.#images.start()
    await sweepOrphans(this.#passContext, this.#ending.signal)
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

  /** Ends the daemon's own work within the configured bound. Guests, and what keeps them, are left alone. */
  async stop(reason: string): Promise<void> {
    const boundMs = this.#config.shutdownBoundSeconds * 1000
    this.#log.info({ reason, bound_ms: boundMs }, 'vmhostd stops; guests keep running')
    notifyStopping(boundMs + limits.shutdownMarginMs)
    this.#ending.abort()
    this.#inspector.stop()
    this.#shells.end()
    this.#admin?.close()
    const work = {
      listener: this.#api?.close(boundMs),
      images: this.#images.stop(),
      snapshots: this.#snapshots.stop(),
      workers: this.#reconciler.stop(),
    }
    await endWork(work, boundMs, this.#log)
    this.#built.traffic.close()
    this.#built.outbound.close()
    this.#built.consoles.close()
    this.#built.firewall.close()
    this.#built.figures.close()
    this.#built.bus.close()
    this.#store.close()
  }
}

/**
 * The pool that this store's disks are in. The first start takes the one that set-up marked; from then on a pool that is
 * missing is a storage fault, which heals when it is mounted, and no reason not to start.
 */
async function knownPool(store: Store, { storage }: Config): Promise<string> {
  if (store.poolId !== undefined) return store.poolId
  try {
    const poolId = await poolIdOf(storage.poolDirectory)
    store.rememberPool(poolId)
    return poolId
  } catch (cause) {
    throw new Error(`${storage.poolDirectory} is no storage pool yet: run "vmhostd setup"`, { cause })
  }
}
