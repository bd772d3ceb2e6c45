import { HostFault } from '../../src/core/errors.ts'
import type { LiveMonitor, MonitorDisk, MonitorState } from '../../src/core/plan/world.ts'
import type { DiskCounters } from '../../src/core/storage/disk-counters.ts'
import type { MonitorCapabilities } from '../../src/core/unit/capabilities.ts'
import type { MachineSpec } from '../../src/core/unit/machine-spec.ts'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { DiskLimits } from '../../src/core/vm/desired.ts'
import type { VmId } from '../../src/core/vm/ids.ts'
import type { Monitor } from '../../src/ports/monitor.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type MonitorMethod =
  | 'inspect'
  | 'ensureRunning'
  | 'ensurePaused'
  | 'ensureDiskSize'
  | 'ensureDiskLimits'
  | 'diskCounters'

const PROGRAM = '/usr/bin/fake-monitor'

/**
 * Monitors in memory. Their processes are units': whoever plays the units tells of a start with `started` and of an end
 * with `ended`.
 */
export class FakeMonitor implements Monitor {
  readonly capabilities: MonitorCapabilities
  /** What guests have read and written; nothing where a guest is not named. */
  readonly counters = new Map<VmId, DiskCounters>()
  readonly #states = new Map<VmId, MonitorState>()
  readonly #withoutRoom = new Set<VmId>()
  readonly #faults = new FaultSwitch<MonitorMethod>()
  #onChange: (id: VmId) => void = () => {}

  constructor(capabilities: Partial<MonitorCapabilities> = {}) {
    this.capabilities = {
      pause: true,
      startPaused: true,
      growDiskOnline: true,
      vcpusMax: 32,
      ...capabilities,
    }
  }

  failNext(method: MonitorMethod, fault: HostFault, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Lets the next call wait until the returned function is called, or until it is aborted. */
  holdNext(method: MonitorMethod): () => void {
    return this.#faults.holdNext(method)
  }

  unitSpec(machine: MachineSpec): UnitSpec {
    const limits = `limits=${JSON.stringify(machine.diskLimits)}`
    return {
      description: `VM ${machine.id}`,
      command: [PROGRAM, machine.id, limits, ...(machine.startPaused ? ['-S'] : [])],
      userId: machine.userId,
      supplementaryGroups: [],
      ttyPath: machine.ptsPath,
      runtimeDirectory: `vmhostd/vm/${machine.id}`,
      cpuQuotaPercent: machine.compute.cpuMillicores / 10,
      memoryMaxBytes: machine.compute.memoryMib * 1024 * 1024,
      tasksMax: 64,
      openFilesMax: 64,
      devices: [],
      readOnlyPaths: [machine.kernelPath, machine.seedPath],
      readWritePaths: [machine.diskPath],
      storeId: machine.storeId,
    }
  }

  inspect(id: VmId): Promise<MonitorState> {
    return this.#faults.run('inspect', () => this.stateOf(id))
  }

  ensureRunning(id: VmId, signal: AbortSignal): Promise<void> {
    return this.#turn('ensureRunning', { id, kind: 'running' }, signal)
  }

  ensurePaused(id: VmId, signal: AbortSignal): Promise<void> {
    return this.#turn('ensurePaused', { id, kind: 'paused' }, signal)
  }

  ensureDiskSize(id: VmId, sizeMib: number, signal: AbortSignal): Promise<void> {
    const grow = (): void => {
      const live = this.#live(id)
      if (live.disk.sizeMib < sizeMib) this.#states.set(id, { ...live, disk: { ...live.disk, sizeMib } })
    }
    return this.#faults.run('ensureDiskSize', grow, signal)
  }

  ensureDiskLimits(id: VmId, limits: DiskLimits, signal: AbortSignal): Promise<void> {
    const limit = (): void => {
      const live = this.#live(id)
      this.#states.set(id, { ...live, disk: { sizeMib: live.disk.sizeMib, ...limits } })
    }
    return this.#faults.run('ensureDiskLimits', limit, signal)
  }

  diskCounters(id: VmId): Promise<DiskCounters> {
    return this.#faults.run('diskCounters', () => {
      if (!this.#states.has(id)) throw new HostFault('monitor_unreachable', `asking the monitor of VM ${id}`)
      return this.counters.get(id) ?? NOTHING_YET
    })
  }

  watch(onChange: (id: VmId) => void): void {
    this.#onChange = onChange
  }

  /** The guest writes, and the pool has no room for it. */
  fillPool(id: VmId): void {
    const { disk } = this.#live(id)
    this.#withoutRoom.add(id)
    this.become(id, { kind: 'stalled', status: 'io-error', disk })
  }

  /** The next time that guest is told to go on, it does. */
  makeRoom(id: VmId): void {
    this.#withoutRoom.delete(id)
  }

  /** What a monitor would answer now. */
  stateOf(id: VmId): MonitorState {
    return this.#states.get(id) ?? { kind: 'silent' }
  }

  /** A unit executed the monitor's program: it answers from now on, and shows its guest a disk of this size. */
  started(id: VmId, spec: UnitSpec, diskMib: number): void {
    const [, , limits = ''] = spec.command
    const disk: MonitorDisk = { sizeMib: diskMib, ...JSON.parse(limits.replace('limits=', '')) }
    this.become(id, { kind: spec.command.includes('-S') ? 'paused' : 'running', disk })
  }

  /** The monitor's process is gone. */
  ended(id: VmId): void {
    this.#withoutRoom.delete(id)
    if (this.#states.delete(id)) this.#onChange(id)
  }

  /** Puts a monitor into any state, e.g. `broken`. */
  become(id: VmId, state: MonitorState): void {
    this.#states.set(id, state)
    this.#onChange(id)
  }

  #turn(
    method: MonitorMethod,
    { id, kind }: { id: VmId; kind: 'running' | 'paused' },
    signal: AbortSignal,
  ): Promise<void> {
    const effect = (): void => {
      const live = this.#live(id)
      if (live.kind === kind || (live.kind === 'stalled' && kind === 'paused')) return
      if (live.kind !== 'stalled' || !this.#withoutRoom.has(id))
        return this.become(id, { kind, disk: live.disk })
      // It went on and stands still again, which its events tell.
      this.become(id, live)
      throw new HostFault('disk_io_error', `resuming VM ${id}`)
    }
    return this.#faults.run(method, effect, signal)
  }

  #live(id: VmId): LiveMonitor {
    const state = this.stateOf(id)
    if (state.kind === 'silent') throw new HostFault('monitor_unreachable', `asking the monitor of VM ${id}`)
    if (state.kind === 'broken') throw new HostFault('monitor_refused', `asking the monitor of VM ${id}`)
    return state
  }
}

const NOTHING_YET: DiskCounters = { readBytes: 0, readOperations: 0, writtenBytes: 0, writeOperations: 0 }
