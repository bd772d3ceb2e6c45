import { limits } from '../config/limits.ts'
import { MONITOR_KINDS } from '../core/monitor/monitor-kind.ts'
import { firstLookDelayMs } from '../core/retry/retry.ts'
import { UnchangedSince } from '../lib/unchanged-since.ts'
import { resyncTerms } from './context.ts'
import { endWithHost } from './end-with-host.ts'
import { firstLooks } from './first-looks.ts'
import { MemoryRoom } from './memory-room.ts'
import { PassPlaces } from './pass-places.ts'
import { PlaceQueue } from './place-queue.ts'
import { Graces, HostEnd, Silences, StoppedVms } from './remembered.ts'
import { ReportedLooks } from './reported-looks.ts'
import { Worker } from './worker.ts'
import type { DeviceName, VmId } from '../core/ids.ts'
import type { GuestsAtShutdown } from '../core/plan/facet.ts'
import type { PassContext, WorkerContext } from './context.ts'
import type { EndedGuests, HostEndTerms } from './end-with-host.ts'
import type { MemoryPromises } from './memory-room.ts'
import type { TaskBetweenPasses } from './worker.ts'

const DEVICE_CHANGED = 'network device changed'

/** Runs a worker for every VM on record, and the watchers that wake the workers. */
export class Reconciler {
  readonly silences = new Silences()
  readonly graces: Graces
  readonly hostEnd: HostEnd
  readonly memory: MemoryRoom
  readonly #context: WorkerContext
  readonly #workers = new Map<VmId, Worker>()
  readonly #places = new PassPlaces()
  /** Looks at all VMs, because changes of their devices were lost. */
  readonly #lostChanges: ReportedLooks
  #stopTraffic = (): void => {}
  #firstLooks: Promise<void> = Promise.resolve()
  #stopping = false

  /** @param capacity returns the figures of the host, which exist only after the reconciler */
  constructor(context: PassContext, capacity: () => MemoryPromises) {
    const memory = new MemoryRoom(
      {
        store: context.store,
        clock: context.host.clock,
        capacity,
      },
      (id, reason) => this.notice(id, reason),
    )
    this.memory = memory
    this.graces = new Graces(context.host.clock)
    this.hostEnd = new HostEnd(context.host.clock)
    this.#lostChanges = new ReportedLooks(context.host.clock, (reason) => this.noticeAll(reason), {
      burst: 1,
      everyMs: limits.lostChangesLookEveryMs,
    })
    this.#context = {
      ...context,
      vmCount: () => this.#workers.size,
      saves: new PlaceQueue(limits.savesMax, (id) => this.notice(id, 'a place to be saved is free')),
      restores: new PlaceQueue(limits.restoresMax, (id) => this.notice(id, 'a turn to wake has come')),
      silences: this.silences,
      waits: new UnchangedSince(),
      stopped: new StoppedVms(),
      graces: this.graces,
      hostEnd: this.hostEnd,
      memory,
    }
  }

  /**
   * Starts a worker for every VM. Resolves when each VM that does not rest has been looked at once. VMs that rest are
   * looked at later, spread over the interval of a settled VM, unless something asks for it before. Starts nothing
   * after a stop.
   */
  async start(): Promise<void> {
    if (this.#stopping) return
    const { store, host } = this.#context
    host.units.watch((id) =>
      id === undefined ? this.noticeAll('unit changed') : this.notice(id, 'unit changed'),
    )
    for (const kind of MONITOR_KINDS)
      host.monitors[kind].watch((id) => this.#workers.get(id)?.report('guest changed'))
    host.taps.watch((device) => this.#noticeDevice(device))
    this.#stopTraffic = host.traffic.watch((userId) => {
      const id = store.vms.withUserId(userId)
      if (id === undefined) return
      // The preparation of a start runs while the host is inspected.
      if (store.vms.readable(id)?.observed.state === 'sleeping') host.units.expectStart()
      this.notice(id, 'traffic')
    })
    // Counts as a change: the reason of the refusal is gone, and so is the back-off.
    host.consoles.onPlace((id) => this.#workers.get(id)?.poke('a console place is free'))
    host.firewall.watch(() => this.noticeAll('firewall changed'))
    const ids = store.vms.ids()
    // Before the first wait: what is noticed meanwhile finds its worker.
    for (const id of ids) this.#worker(id)
    this.#firstLooks = firstLooks(this.#context, {
      now: (some) => this.#look(some),
      later: (id) => this.#workers.get(id)?.firstPassAfter(firstLookDelayMs(resyncTerms(this.#context))),
    })
    await this.#firstLooks
  }

  async #look(ids: readonly VmId[]): Promise<void> {
    const workers = ids.map((id) => this.#worker(id))
    for (const worker of workers) worker.poke('daemon started', { ofAll: true })
    await Promise.all(workers.map((worker) => worker.firstPass()))
  }

  /** Asks for a pass of a VM whose desired state changed; it ends a back-off. */
  poke(id: VmId, reason: string): void {
    if (!this.#stopping) this.#worker(id).poke(reason)
  }

  /** Does the same for all VMs, after a change on the host that any of them may depend on. */
  pokeAll(reason: string): void {
    for (const worker of this.#workers.values()) worker.poke(reason, { ofAll: true })
  }

  /** Asks for a look at a VM. Unlike a poke, that ends no back-off. */
  notice(id: VmId, reason: string): void {
    this.#workers.get(id)?.notice(reason)
  }

  /** Does the same for all VMs, for a reason that concerns all of them. */
  noticeAll(reason: string): void {
    for (const worker of this.#workers.values()) worker.notice(reason, { ofAll: true })
  }

  /**
   * Runs a task while no pass of the VM runs or begins; pokes are kept. The tasks of one VM run one at a time, in order
   * of arrival. Its first signal aborts when a stop or a deletion is requested, and when the worker stops; the task
   * should then end soon. Its second signal aborts when the guest must end at once. Returns undefined if the VM has no
   * worker, or no longer has one.
   */
  async betweenPasses<T>(id: VmId, task: TaskBetweenPasses<T>): Promise<T | undefined> {
    return this.#workers.get(id)?.betweenPasses(task)
  }

  /** Does what {@link endWithHost} describes. */
  async endWithHost(policy: GuestsAtShutdown, terms: HostEndTerms): Promise<EndedGuests> {
    const workers = {
      ensure: (id: VmId) => void this.#worker(id),
      pokeAll: (reason: string) => this.pokeAll(reason),
      idle: () => this.idle(),
      betweenPasses: (id: VmId, task: () => Promise<void>) => this.betweenPasses(id, task),
    }
    return endWithHost(this.#context, workers, { policy, ...terms })
  }

  /** Stops all workers; resolves when no pass runs. Guests keep running. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#stopTraffic()
    this.#lostChanges.stop()
    await Promise.all([...this.#workers.values()].map((worker) => worker.stop()))
  }

  /** Resolves when no worker has anything to do before a timer or a poke. */
  async idle(): Promise<void> {
    await this.#firstLooks
    await Promise.all([...this.#workers.values()].map((worker) => worker.idle()))
  }

  #noticeDevice(device: DeviceName | undefined): void {
    if (this.#stopping) return
    // A monitor can change its tap: its carrier, its offloads, its queues. It can do so faster than the kernel reports.
    if (device === undefined) return this.#lostChanges.report(DEVICE_CHANGED)
    const id = this.#context.store.vms.withDevice(device)
    if (id !== undefined) this.#workers.get(id)?.report(DEVICE_CHANGED)
  }

  #worker(id: VmId): Worker {
    let worker = this.#workers.get(id)
    if (worker === undefined) {
      const onGone = (): void => {
        this.#workers.delete(id)
        this.#context.saves.forget(id)
        this.#context.restores.forget(id)
        this.#context.silences.forget(id)
        this.#context.waits.forget(id)
        this.#context.stopped.forget(id)
        this.graces.forget(id)
        this.memory.callNext()
      }
      worker = new Worker(this.#context, id, { places: this.#places, onGone })
      this.#workers.set(id, worker)
    }
    return worker
  }
}
