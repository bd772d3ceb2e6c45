import { limits } from '../config/limits.ts'
import { MONITOR_KINDS } from '../core/monitor/monitor-kind.ts'
import { Semaphore } from '../lib/semaphore.ts'
import { Silences, Saves } from './process-facts.ts'
import { Worker } from './worker.ts'
import type { DeviceName, VmId } from '../core/ids.ts'
import type { PassContext, WorkerContext } from './progress.ts'

/** Runs a worker for every VM on record, and the watchers that wake the workers. */
export class Reconciler {
  readonly silences = new Silences()
  readonly #context: WorkerContext
  readonly #workers = new Map<VmId, Worker>()
  readonly #places = new Semaphore(limits.passesMax)
  #stopTraffic = (): void => {}
  #stopping = false

  constructor(context: PassContext) {
    const saves = new Saves((id) => this.#notice(id, 'a place to be saved is free'))
    this.#context = { ...context, saves, silences: this.silences }
  }

  /** Starts a worker for every VM; resolves when each has looked at its host objects once. */
  async start(): Promise<void> {
    const { store, host } = this.#context
    host.units.watch((id) => this.#notice(id, 'unit changed'))
    for (const kind of MONITOR_KINDS) host.monitors[kind].watch((id) => this.#notice(id, 'guest changed'))
    host.taps.watch((device) => this.#noticeDevice(device))
    this.#stopTraffic = host.traffic.watch((userId) => {
      const id = store.vms.withUserId(userId)
      if (id === undefined) return
      // The preparation of a start runs while the host is inspected.
      if (store.vms.get(id)?.observed.state === 'sleeping') host.units.expectStart()
      this.#notice(id, 'traffic')
    })
    // Counts as a change: the reason of the refusal is gone, and so is the back-off.
    host.consoles.onPlace((id) => this.#workers.get(id)?.poke('a console place is free', true))
    host.firewall.watch(() => this.#notice(undefined, 'firewall changed'))
    const ids = store.vms.ids()
    const workers = ids.map((id) => this.#worker(id))
    for (const worker of workers) worker.poke('daemon started', true)
    await Promise.all(workers.map((worker) => worker.firstPass()))
  }

  /** Wakes the worker of a VM whose desired state changed. */
  poke(id: VmId, reason: string): void {
    if (!this.#stopping) this.#worker(id).poke(reason, true)
  }

  /** Wakes all workers after a change on the host that any VM may depend on; it ends every back-off. */
  pokeAll(reason: string): void {
    for (const worker of this.#workers.values()) worker.poke(reason, true)
  }

  /**
   * Runs a task while no pass of the VM runs or begins; pokes are kept. The tasks of one VM run one at a time, in order
   * of arrival. The signal aborts when a hard stop or a deletion is requested, and when the worker stops; the task
   * should then end soon. Returns undefined if the VM has no worker, or no longer has one.
   */
  async betweenPasses<T>(id: VmId, task: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    return this.#workers.get(id)?.betweenPasses(task)
  }

  /** Stops all workers; resolves when no pass runs. Guests keep running. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#stopTraffic()
    await Promise.all([...this.#workers.values()].map((worker) => worker.stop()))
  }

  /** Resolves when no worker has anything to do before a timer or a poke. */
  async idle(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.idle()))
  }

  #notice(id: VmId | undefined, reason: string): void {
    if (id !== undefined) this.#workers.get(id)?.poke(reason, false)
    else for (const worker of this.#workers.values()) worker.poke(reason, false)
  }

  #noticeDevice(device: DeviceName | undefined): void {
    const id = device === undefined ? undefined : this.#context.store.vms.withDevice(device)
    if (device === undefined || id !== undefined) this.#notice(id, 'network device changed')
  }

  #worker(id: VmId): Worker {
    let worker = this.#workers.get(id)
    if (worker === undefined) {
      const onGone = (): void => {
        this.#workers.delete(id)
        this.#context.saves.forget(id)
        this.#context.silences.forget(id)
      }
      worker = new Worker(this.#context, id, { places: this.#places, onGone })
      this.#workers.set(id, worker)
    }
    return worker
  }
}
