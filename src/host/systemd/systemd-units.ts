import { basename } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import type { FaultCode, RetryClass } from '../../core/errors.ts'
import type { FoundMark, UnitState } from '../../core/world/world.ts'
import { parseUnitName, UNIT_PATTERN, unitName } from '../../core/unit/unit-spec.ts'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'
import type { Resident } from '../../core/capacity/resident.ts'
import type { VmId } from '../../core/ids.ts'
import { Listeners } from '../../lib/listeners.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { Log } from '../../log/log.ts'
import type { Units } from '../../ports/units.ts'
import { isBusError, variant } from './bus.ts'
import { MANAGER, MANAGER_PATH, NO_SUCH_UNIT, SERVICE, UNIT, unitPath } from './bus-names.ts'
import { changedVm, isReload } from './early-signals.ts'
import { EarlyMove, UnitGroups, endProcesses, processesIn } from './control-groups.ts'
import { describeExit, EXIT_EXEC } from './exit-status.ts'
import { runJob } from './run-job.ts'
import { makeRuntimeFiles } from './runtime-directories.ts'
import type { SystemdBus } from './systemd-bus.ts'
import { cpuTimeIn, residentIn } from './unit-usage.ts'
import { markIn, unitProperties } from './unit-properties.ts'
import { makeUnitRoot, removeUnitRoot } from './unit-root.ts'
import { removeUserRecord, writeUserRecord } from './user-record.ts'

/** The values of ActiveState for a unit whose program runs (org.freedesktop.systemd1(5)). */
const ACTIVE_STATES = ['active', 'reloading', 'refreshing']

const UNIT_EXISTS = 'org.freedesktop.systemd1.UnitExists'

export type SystemdUnitsOptions = {
  readonly bus: SystemdBus
  readonly log: Log
  /** The daemon's own directory below /run. It must stay when the daemon stops. */
  readonly runDirectory: string
}

/** The units of VMs as transient services of systemd, which owns the processes. */
export class SystemdUnits implements Units {
  readonly #bus: SystemdBus
  readonly #log: Log
  readonly #runDirectory: string
  readonly #groups: UnitGroups
  readonly #earlyMove = new EarlyMove()
  /** The VMs whose unit was loaded when it was last seen. It may be gone since. */
  readonly #loaded = new Set<VmId>()
  /** ActiveState of units by the newest listing. Each is taken once, and only if no change was reported since. */
  readonly #listed = new Map<VmId, string>()
  /** Counts the reported changes of units. */
  #changes = 0
  readonly #watchers = new Listeners<[id: VmId | undefined]>()
  /** The main processes that were seen. */
  readonly #processes = new Map<VmId, MainProcess>()

  constructor({ bus, log, runDirectory }: SystemdUnitsOptions) {
    this.#bus = bus
    this.#log = log
    this.#runDirectory = runDirectory
    this.#groups = new UnitGroups(async () =>
      String(await this.#bus.property(MANAGER_PATH, MANAGER, 'ControlGroup')),
    )
    bus.onSignal((signal) => {
      const id = changedVm(signal)
      if (id !== undefined) this.#noteChange(id)
      // All units were loaded again, perhaps the daemon's own with another descriptor store.
      if (isReload(signal)) this.#noteChange(undefined)
    })
    bus.onLoss(() => this.#forgetListed(undefined))
    bus.onReturn(() => this.#watchers.notify(undefined))
  }

  async inspect(id: VmId): Promise<UnitState> {
    try {
      return await this.#inspect(id)
    } catch (error) {
      throw fault('systemd_unavailable', `inspecting ${unitName(id)}`, error)
    }
  }

  async ensureStarted(id: VmId, spec: UnitSpec, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const doing = `starting ${unitName(id)}`
    const result = await this.#start(id, spec, signal).catch((error: unknown) => {
      throw signal.aborted ? signal.reason : fault('unit_start_failed', doing, error)
    })
    if (result === 'done') return
    // A stop replaced the start, and has its own caller.
    if (result === 'canceled')
      throw new HostFault('unit_start_failed', `${doing}: a stop came in between`, SOON)
    const state = await this.inspect(id)
    if (state.kind !== 'failed')
      throw new HostFault('unit_start_failed', `${doing}: the job ended as ${result}`)
    const missing = state.result === 'exit-code' && state.status === EXIT_EXEC
    const code = missing ? 'monitor_missing' : 'unit_start_failed'
    const program = missing ? ` (${basename(spec.command[0] ?? '')})` : ''
    throw new HostFault(code, `${doing}: ${describeExit(state.result, state.status)}${program}`)
  }

  expectStart(): void {
    void this.#earlyMove.make()
  }

  async ensureStopped(id: VmId, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    try {
      await this.#stop(id, signal)
      this.#removeFiles(id)
    } catch (error) {
      throw signal.aborted ? signal.reason : fault('unit_stop_failed', `stopping ${unitName(id)}`, error)
    }
  }

  forget(id: VmId): void {
    try {
      this.#removeFiles(id)
    } catch (error) {
      this.#log.warn({ vm_id: id, reason: errorChain(error) }, 'files of a unit that is gone stay')
    }
  }

  async list(
    except: ReadonlySet<VmId> = new Set(),
  ): Promise<readonly { id: VmId; state: UnitState; storeId: string | undefined }[]> {
    try {
      const loaded = await this.#listLoaded([])
      const isLoaded = new Set(loaded)
      const forgotten = (await this.#groups.ids()).filter((id) => !isLoaded.has(id))
      const isWanted = (id: VmId): boolean => !except.has(id)
      const listed = await Promise.all([
        ...loaded.filter(isWanted).map(async (id) => {
          const [state, environment] = await Promise.all([
            this.#inspect(id),
            this.#bus.property(unitPath(unitName(id)), SERVICE, 'Environment'),
          ])
          return { id, state, storeId: markIn(environment as string[]).storeId }
        }),
        ...forgotten
          .filter(isWanted)
          .map(async (id) => ({ id, state: await this.#inspect(id), storeId: undefined })),
      ])
      return listed.filter(({ state }) => state.kind !== 'absent')
    } catch (error) {
      throw fault('systemd_unavailable', 'listing the units of VMs', error)
    }
  }

  async active(): Promise<readonly VmId[]> {
    try {
      return await this.#listLoaded(ACTIVE_STATES)
    } catch (error) {
      throw fault('systemd_unavailable', 'listing the active units of VMs', error)
    }
  }

  async resident(ids: readonly VmId[]): Promise<ReadonlyMap<VmId, Resident>> {
    try {
      return await residentIn(await this.#groupsOf(ids))
    } catch (error) {
      throw fault('capacity_unknown', 'measuring the memory of the units of VMs', error)
    }
  }

  async cpuTime(ids: readonly VmId[]): Promise<ReadonlyMap<VmId, number>> {
    try {
      return await cpuTimeIn(await this.#groupsOf(ids))
    } catch (error) {
      throw fault('capacity_unknown', 'reading the CPU time of the units of VMs', error)
    }
  }

  /** Watches units. UnitNew and UnitRemoved are ignored, because inspecting a unit that is not loaded causes both. */
  watch(onChange: (id: VmId | undefined) => void): void {
    this.#watchers.add(onChange)
    this.#bus.connect().catch((error: unknown) => {
      this.#log.warn({ reason: errorChain(error) }, 'unit watch failed; tried again later')
    })
  }

  async #start(id: VmId, spec: UnitSpec, signal: AbortSignal): Promise<string> {
    const name = unitName(id)
    this.#processes.delete(id)
    this.expectStart()
    const root = makeUnitRoot(this.#rootOf(id))
    writeUserRecord(id, spec.userId)
    const properties = unitProperties(id, spec, root).map(([property, signature, value]) => [
      property,
      variant(signature, value),
    ])
    const start = (): Promise<readonly unknown[]> =>
      this.#bus.callManager('StartTransientUnit', 'ssa(sv)a(sa(sv))', [name, 'fail', properties, []])
    // The directory of a unit that runs already is in use.
    if (spec.runtimeFiles.length === 0 || (await this.#inspect(id)).kind === 'absent') {
      try {
        await makeRuntimeFiles(spec)
        return await runJob(this.#bus, name, signal, start)
      } catch (error) {
        if (!isBusError(error, UNIT_EXISTS)) throw error
      }
    }
    const { kind } = await this.#inspect(id)
    if (kind === 'active') return 'done'
    // A start in mode `fail` joins a start that is under way, and is refused during a stop.
    if (kind === 'activating' || kind === 'deactivating') {
      const join = (): Promise<readonly unknown[]> => this.#bus.callManager('StartUnit', 'ss', [name, 'fail'])
      return runJob(this.#bus, name, signal, join)
    }
    await this.#forget(name)
    await makeRuntimeFiles(spec)
    return runJob(this.#bus, name, signal, start)
  }

  async #stop(id: VmId, signal: AbortSignal): Promise<void> {
    const name = unitName(id)
    try {
      const result = await runJob(this.#bus, name, signal, () =>
        this.#bus.callManager('StopUnit', 'ss', [name, 'replace']),
      )
      if (result !== 'done') throw new Error(`the job ended as ${result}`)
    } catch (error) {
      if (!isBusError(error, NO_SUCH_UNIT)) throw error
    }
    // systemd gives up on a process that outlives SIGKILL, and marks the unit as failed. Other processes may have
    // joined the group from elsewhere.
    await endProcesses(await this.#groups.pathOf(id), signal)
    await this.#forget(name)
  }

  #rootOf(id: VmId): string {
    return `${this.#runDirectory}/roots/${id}`
  }

  #removeFiles(id: VmId): void {
    removeUserRecord(id)
    removeUnitRoot(this.#rootOf(id))
  }

  /** Unloads a unit that failed. SIGKILL counts as a failure too. */
  async #forget(name: string): Promise<void> {
    try {
      await this.#bus.callManager('ResetFailedUnit', 's', [name])
    } catch (error) {
      if (!isBusError(error, NO_SUCH_UNIT)) throw error
    }
  }

  /**
   * Inspects a unit. If it was not loaded before, GetUnit comes first, because reading a property of a unit that is not
   * loaded loads it for a moment.
   */
  async #inspect(id: VmId): Promise<UnitState> {
    if (this.#loaded.has(id) || (await this.#isLoaded(id))) {
      const state = await this.#look(id)
      if (state.kind === 'absent' || state.kind === 'leftover') this.#loaded.delete(id)
      else this.#loaded.add(id)
      return state
    }
    this.#processes.delete(id)
    return (await this.#leftover(id)) ?? { kind: 'absent' }
  }

  /** Returns the VMs with a loaded unit in one of these states; in any state if no state is named. */
  async #listLoaded(states: readonly string[]): Promise<readonly VmId[]> {
    const before = this.#changes
    const [units] = await this.#bus.callManager('ListUnitsByPatterns', 'asas', [states, [UNIT_PATTERN]])
    this.#listed.clear()
    // A change that arrived together with the listing is handled before it.
    const isNewest = this.#changes === before
    return (units as readonly ListedUnit[]).flatMap(([name, , , activeState]) => {
      const id = parseUnitName(name)
      if (id === undefined) return []
      this.#loaded.add(id)
      if (isNewest) this.#listed.set(id, activeState)
      return [id]
    })
  }

  async #isLoaded(id: VmId): Promise<boolean> {
    try {
      await this.#bus.callManager('GetUnit', 's', [unitName(id)])
      return true
    } catch (error) {
      if (isBusError(error, NO_SUCH_UNIT)) return false
      throw error
    }
  }

  /** Returns the state of a unit by its properties. Those of a unit that is not loaded show one that is inactive. */
  async #look(id: VmId): Promise<UnitState> {
    const unit = unitPath(unitName(id))
    // All are sent at once. If the unit changes in between, its change arrives as a signal, and it is inspected again.
    const listed = this.#listed.get(id)
    this.#listed.delete(id)
    const [activeState, running] = await Promise.all([
      listed ?? this.#bus.property(unit, UNIT, 'ActiveState'),
      this.#mainProcess(id, unit),
    ])
    switch (activeState) {
      case 'active':
      case 'reloading':
      case 'refreshing':
        return { kind: 'active', ...running }
      case 'activating':
        return { kind: 'activating', ...running }
      case 'deactivating':
        return { kind: 'deactivating' }
      case 'failed':
        return (await this.#leftover(id)) ?? (await this.#failure(unit))
      case 'inactive':
        return (await this.#leftover(id)) ?? { kind: 'absent' }
      default:
        throw new Error(`ActiveState ${String(activeState)} is not one that systemd documents`)
    }
  }

  /** Returns the facts about a unit's main process. What was read before holds as long as the unit has that process. */
  async #mainProcess(id: VmId, unit: string): Promise<MainProcess> {
    const asked = this.#bus.property(unit, SERVICE, 'MainPID').then(Number)
    const known = this.#processes.get(id)
    if (known !== undefined && known.mainPid === (await asked)) return known
    const [mainPid, startedAt, environment] = await Promise.all([
      asked,
      this.#bus.property(unit, SERVICE, 'ExecMainStartTimestamp'),
      this.#bus.property(unit, SERVICE, 'Environment'),
    ])
    const startedAtMs = Math.floor(Number(startedAt) / 1000)
    const found = { mainPid, startedAtMs, mark: markIn(environment as string[]) }
    if (mainPid === 0) this.#processes.delete(id)
    else this.#processes.set(id, found)
    return found
  }

  #groupsOf(ids: readonly VmId[]): Promise<readonly (readonly [VmId, string])[]> {
    return Promise.all(ids.map(async (id) => [id, await this.#groups.pathOf(id)] as const))
  }

  /** Notes that the unit of a VM has changed, or perhaps all units. */
  #noteChange(id: VmId | undefined): void {
    this.#forgetListed(id)
    this.#watchers.notify(id)
  }

  /** Forgets what the listing said of a unit, or of all units. */
  #forgetListed(id: VmId | undefined): void {
    if (id === undefined) this.#listed.clear()
    else this.#listed.delete(id)
    this.#changes += 1
  }

  async #failure(unit: string): Promise<UnitState> {
    const [result, status] = await Promise.all([
      this.#bus.property(unit, SERVICE, 'Result'),
      this.#bus.property(unit, SERVICE, 'ExecMainStatus'),
    ])
    return { kind: 'failed', result: String(result), status: Number(status) }
  }

  async #leftover(id: VmId): Promise<UnitState | undefined> {
    const pids = await processesIn(await this.#groups.pathOf(id))
    return pids.length === 0 ? undefined : { kind: 'leftover', pids }
  }
}

/** The first fields of a unit in a listing (org.freedesktop.systemd1(5), ListUnits). */
type ListedUnit = readonly [name: string, description: string, loadState: string, activeState: string]

type MainProcess = {
  readonly mainPid: number
  readonly startedAtMs: number
  readonly mark: FoundMark
}

const SOON: { readonly retry: RetryClass } = { retry: 'soon' }

/** Keeps the code of an unreachable systemd. Any other error is a failure of the operation. */
function fault(code: FaultCode, doing: string, cause: unknown): HostFault {
  return new HostFault(cause instanceof HostFault ? cause.code : code, doing, { cause })
}
