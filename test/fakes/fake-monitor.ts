import { HostFault } from '../../src/core/errors.ts'
import type { MonitorState } from '../../src/core/plan/world.ts'
import type { MonitorCapabilities } from '../../src/core/unit/capabilities.ts'
import type { MachineSpec } from '../../src/core/unit/machine-spec.ts'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { VmId } from '../../src/core/vm/ids.ts'
import type { Monitor } from '../../src/ports/monitor.ts'
import { FaultSwitch } from './fault-switch.ts'
import type { FaultMoment } from './fault-switch.ts'

export type MonitorMethod = 'inspect' | 'ensureRunning' | 'ensurePaused'

const PROGRAM = '/usr/bin/fake-monitor'

/**
 * Monitors in memory. Their processes are units': whoever plays the units tells of a start with `started` and of an end
 * with `ended`.
 */
export class FakeMonitor implements Monitor {
  readonly capabilities: MonitorCapabilities
  readonly #states = new Map<VmId, MonitorState>()
  readonly #faults = new FaultSwitch<MonitorMethod>()
  #onChange: (id: VmId) => void = () => {}

  constructor(capabilities: Partial<MonitorCapabilities> = {}) {
    this.capabilities = {
      pause: true,
      startPaused: true,
      growDiskOnline: false,
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
    return {
      description: `VM ${machine.id}`,
      command: machine.startPaused ? [PROGRAM, machine.id, '-S'] : [PROGRAM, machine.id],
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
    return this.#ensure('ensureRunning', { id, kind: 'running' }, signal)
  }

  ensurePaused(id: VmId, signal: AbortSignal): Promise<void> {
    return this.#ensure('ensurePaused', { id, kind: 'paused' }, signal)
  }

  watch(onChange: (id: VmId) => void): void {
    this.#onChange = onChange
  }

  /** What a monitor would answer now. */
  stateOf(id: VmId): MonitorState {
    return this.#states.get(id) ?? { kind: 'silent' }
  }

  /** A unit executed the monitor's program: it answers from now on. */
  started(id: VmId, spec: UnitSpec): void {
    this.become(id, { kind: spec.command.includes('-S') ? 'paused' : 'running' })
  }

  /** The monitor's process is gone. */
  ended(id: VmId): void {
    if (this.#states.delete(id)) this.#onChange(id)
  }

  /** Puts a monitor into any state, e.g. `broken`. */
  become(id: VmId, state: MonitorState): void {
    this.#states.set(id, state)
    this.#onChange(id)
  }

  #ensure(
    method: MonitorMethod,
    wanted: { id: VmId; kind: 'running' | 'paused' },
    signal: AbortSignal,
  ): Promise<void> {
    const { id, kind } = wanted
    const effect = (): void => {
      const state = this.stateOf(id)
      if (state.kind === kind) return
      if (state.kind === 'silent') throw new HostFault('monitor_unreachable', `turning VM ${id} to ${kind}`)
      if (state.kind === 'broken') throw new HostFault('monitor_refused', `turning VM ${id} to ${kind}`)
      this.become(id, { kind })
    }
    return this.#faults.run(method, effect, signal)
  }
}
