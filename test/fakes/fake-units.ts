import { HostFault } from '../../src/core/errors.ts'
import type { UnitState, VmMark } from '../../src/core/world/world.ts'
import { unitName } from '../../src/core/unit/unit-spec.ts'
import type { Resident } from '../../src/core/capacity/resident.ts'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Units } from '../../src/ports/units.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type UnitsMethod =
  | 'inspect'
  | 'ensureStarted'
  | 'ensureStopped'
  | 'list'
  | 'active'
  | 'resident'
  | 'cpuTime'

/** A unit of which no test sets the memory. */
const SMALL: Resident = { anonymousBytes: 1024 * 1024, fileBytes: 4096 }

type FakeUnit = { readonly spec: UnitSpec; state: UnitState }

/** Units in memory. A unit runs until it is stopped or ended by {@link FakeUnits.exit}. */
export class FakeUnits implements Units {
  /** Programs that are not installed. */
  readonly missingPrograms = new Set<string>()
  /** VMs for which the host has something, whether or not their unit is there. */
  readonly known = new Set<VmId>()
  /** Starts that were announced as likely. */
  expectedStarts = 0
  readonly #faults = new FaultSwitch<UnitsMethod>()
  readonly #units = new Map<VmId, FakeUnit>()
  readonly #leftovers = new Map<VmId, readonly number[]>()
  readonly #watchers: ((id: VmId | undefined) => void)[] = []
  readonly #now: () => number
  #pids = 1000

  constructor(options: { readonly now?: () => number } = {}) {
    this.#now = options.now ?? (() => Date.parse('2030-01-01T00:00:00Z'))
  }

  failNext(method: UnitsMethod, fault: HostFault, moment?: FaultMoment): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Specification of the unit's last start. */
  specOf(id: VmId): UnitSpec | undefined {
    return this.#units.get(id)?.spec
  }

  /** Makes the unit another VM's from now on. */
  setMark(id: VmId, mark: VmMark): void {
    const unit = this.#units.get(id)
    if (unit?.state.kind === 'active') unit.state = { ...unit.state, mark }
  }

  /** Ends the unit's program by itself; status 0 without a result is a clean end. */
  exit(id: VmId, status: number, result = 'exit-code'): void {
    const unit = this.#units.get(id)
    if (unit?.state.kind !== 'active') return
    if (status === 0) this.#units.delete(id)
    else unit.state = { kind: 'failed', result, status }
    this.#notify(id)
  }

  /** Leaves a process in the unit's control group, which shows once the unit is gone or failed. */
  leave(id: VmId): number {
    const pid = ++this.#pids
    this.#leftovers.set(id, [...(this.#leftovers.get(id) ?? []), pid])
    return pid
  }

  /** Whether a process that was left is alive. */
  lives(pid: number): boolean {
    return [...this.#leftovers.values()].some((pids) => pids.includes(pid))
  }

  /** The connection to systemd comes back after an interruption. */
  reconnect(): void {
    this.#notify(undefined)
  }

  /** Returns what an inspection would find now. */
  stateOf(id: VmId): UnitState {
    const state = this.#units.get(id)?.state ?? { kind: 'absent' }
    const pids = this.#leftovers.get(id)
    const isOver = state.kind === 'absent' || state.kind === 'failed'
    return isOver && pids !== undefined ? { kind: 'leftover', pids } : state
  }

  inspect(id: VmId): Promise<UnitState> {
    return this.#faults.run('inspect', () => this.stateOf(id))
  }

  ensureStarted(id: VmId, spec: UnitSpec, signal: AbortSignal): Promise<void> {
    return this.#faults.run('ensureStarted', () => {
      signal.throwIfAborted()
      if (this.#units.get(id)?.state.kind === 'active') return
      const missing = this.missingPrograms.has(spec.command[0])
      this.known.add(id)
      this.#units.set(id, {
        spec,
        state: missing
          ? { kind: 'failed', result: 'exit-code', status: 203 }
          : { kind: 'active', mainPid: ++this.#pids, startedAtMs: this.#now(), mark: spec.mark },
      })
      this.#notify(id)
      if (missing) throw new HostFault('monitor_missing', `starting ${unitName(id)}: exit-code, status 203`)
    })
  }

  expectStart(): void {
    this.expectedStarts += 1
  }

  ensureStopped(id: VmId, signal: AbortSignal): Promise<void> {
    return this.#faults.run('ensureStopped', () => {
      signal.throwIfAborted()
      this.#leftovers.delete(id)
      this.forget(id)
      if (this.#units.delete(id)) this.#notify(id)
    })
  }

  forget(id: VmId): void {
    this.known.delete(id)
  }

  list(
    except: ReadonlySet<VmId> = new Set(),
  ): Promise<readonly { id: VmId; state: UnitState; storeId: string | undefined }[]> {
    return this.#faults.run('list', () =>
      [...new Set([...this.#units.keys(), ...this.#leftovers.keys()])]
        .filter((id) => !except.has(id))
        .map((id) => ({
          id,
          state: this.stateOf(id),
          storeId: this.#units.get(id)?.spec.mark.storeId,
        })),
    )
  }

  active(): Promise<readonly VmId[]> {
    return this.#faults.run('active', () =>
      [...this.#units].filter(([, { state }]) => state.kind === 'active').map(([id]) => id),
    )
  }

  /** Memory of each unit that runs. */
  readonly memory = new Map<VmId, Resident>()
  /** How often the memory of units was measured. */
  measurements = 0

  resident(ids: readonly VmId[]): Promise<ReadonlyMap<VmId, Resident>> {
    this.measurements += 1
    const running = ids.filter((id) => this.#units.get(id)?.state.kind === 'active')
    return this.#faults.run(
      'resident',
      () => new Map(running.map((id) => [id, this.memory.get(id) ?? SMALL])),
    )
  }

  /** CPU time of each unit that runs, in microseconds. */
  readonly cpu = new Map<VmId, number>()

  cpuTime(ids: readonly VmId[]): Promise<ReadonlyMap<VmId, number>> {
    const running = ids.filter((id) => this.#units.get(id)?.state.kind === 'active')
    return this.#faults.run('cpuTime', () => new Map(running.map((id) => [id, this.cpu.get(id) ?? 1000])))
  }

  watch(onChange: (id: VmId | undefined) => void): void {
    this.#watchers.push(onChange)
  }

  #notify(id: VmId | undefined): void {
    for (const watcher of this.#watchers) watcher(id)
  }
}
