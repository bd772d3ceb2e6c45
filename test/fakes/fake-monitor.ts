import { HostFault } from '../../src/core/errors.ts'
import { monitorMismatch } from '../../src/core/saved/judge-saved-state.ts'
import type { LiveMonitor, MonitorState } from '../../src/core/world/world.ts'
import type { SavingMonitor } from '../../src/core/world/saved-state.ts'
import type { DiskCounters } from '../../src/core/world/counters.ts'
import type { MonitorCapabilities, MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import type { Processor } from '../../src/core/monitor/processor.ts'
import type { UnitSpec } from '../../src/core/unit/unit-spec.ts'
import type { Disk, DiskLimits } from '../../src/core/desired.ts'
import type { VmId } from '../../src/core/ids.ts'
import type {
  FreezeOutcome,
  GuestAgent,
  Monitor,
  RestoredGuest,
  SavedGuest,
} from '../../src/ports/monitor.ts'
import { FaultSwitch } from './fault-switch.ts'
import { SavedFiles } from './saved-files.ts'
import { unitSpecOn } from './unit-spec.ts'
import type { FaultMoment } from './fault-switch.ts'
import type { GuestMemory, SavedFile } from './saved-files.ts'

export type MonitorMethod =
  | 'inspect'
  | 'ensureRunning'
  | 'resumeFromSave'
  | 'ensurePaused'
  | 'ensureDiskSize'
  | 'ensureDiskLimits'
  | 'diskCounters'
  | 'installed'
  | 'save'
  | 'ensureRestored'
  | 'askToEnd'
  | 'freeze'
  | 'thaw'
  | 'agentListens'

const FOLDER = '/usr/bin/'
const RESTORE = 'restore='

/** A process that restores a guest: the file it reads, and whether it was inspected since its start. */
type Restoring = { readonly file: SavedFile | undefined; readonly disk: Disk; seen: boolean }

/**
 * Monitors in memory. Their processes belong to the units: the owner of the units reports a start with `started` and an
 * end with `ended`. `onExit` reports to it a process that ended by itself.
 *
 * Each guest has a memory: a boot gives it a life, and it makes progress whenever it is resumed, and by {@link
 * FakeMonitor.run}. A restore from before progress that was already visible is recorded in `relived`.
 */
export class FakeMonitor implements Monitor {
  readonly capabilities: MonitorCapabilities
  readonly agent: GuestAgent = {
    setGuestTime: (id) => void this.clocksSet.push(id),
    freeze: (id, signal) => this.#freeze(id, signal),
    thaw: (id, signal) => this.#thaw(id, signal),
  }
  /** Its name without a path; each monitor of a host has its own. */
  readonly program: string
  /** Whether it begins to read a saved guest at its start, and not when it is asked to. */
  readonly restoresAlone: boolean = true
  /** Bytes that guests have read and written; zero for a guest that is not named. */
  readonly counters = new Map<VmId, DiskCounters>()
  /** Version of the installed program; an upgrade changes it for the next starts. */
  version = '1.0'
  /** Processor of this host. */
  processor: Processor = { vendor: 'FakeVendor', features: ['fpu', 'avx2'] }
  readonly files: SavedFiles
  /** Guests whose clock was set, in order. */
  readonly clocksSet: VmId[] = []
  /** Guests with an agent that can freeze their file systems while they run, and guests that are frozen. */
  readonly agents = new Set<VmId>()
  readonly frozen = new Set<VmId>()
  /** Guests whose agent obeys but never answers, and guests whose agent is busy and does nothing. */
  readonly mute = new Set<VmId>()
  readonly busy = new Set<VmId>()
  /** Guests that ran on from a state they had already left behind: each lost its progress since that state. */
  readonly relived: VmId[] = []
  /** Guests that were asked to end, in order. */
  readonly askedToEnd: VmId[] = []
  /** Reports a process that ended by itself: because it could not restore its guest, or because its guest has ended. */
  onExit: (id: VmId, status: number) => void = () => {}
  readonly #states = new Map<VmId, MonitorState>()
  readonly #memories = new Map<VmId, GuestMemory>()
  /** The version of the program that runs each guest. */
  readonly #versions = new Map<VmId, string>()
  readonly #restoring = new Map<VmId, Restoring>()
  /** The furthest progress of each life. */
  readonly #furthest = new Map<number, number>()
  /** Number of the last life that began. */
  lives = 0
  /** Lives that were saved with frozen file systems. */
  readonly #savedFrozen = new Set<number>()
  /** Guests that have not run since they were saved. */
  readonly #savedAndStill = new Set<VmId>()
  readonly #withoutRoom = new Set<VmId>()
  readonly #faults = new FaultSwitch<MonitorMethod>()
  #onChange: (id: VmId) => void = () => {}

  constructor(
    capabilities: Partial<MonitorCapabilities> = {},
    { program = 'fake-monitor', files = new SavedFiles() } = {},
  ) {
    this.program = program
    this.files = files
    this.capabilities = {
      startPaused: true,
      save: true,
      kernelFormats: ['bzImage', 'ELF'],
      ...capabilities,
    }
  }

  failNext(method: MonitorMethod, fault: Error, moment: FaultMoment = 'before'): void {
    this.#faults.failNext(method, fault, moment)
  }

  /** Lets the next call wait until the returned function is called, or until it is aborted. */
  holdNext(method: MonitorMethod): () => void {
    return this.#faults.holdNext(method)
  }

  memoryMib(_guestMib: number): number {
    return 100
  }

  unitSpec(machine: MachineSpec): UnitSpec {
    const limits = `limits=${JSON.stringify(machine.diskLimits)}`
    const restore = machine.restorePath === undefined ? [] : [`${RESTORE}${machine.restorePath}`]
    const paused = machine.startPaused || machine.restorePath !== undefined ? ['-S'] : []
    const command = [`${FOLDER}${this.program}`, machine.id, limits, ...restore, ...paused] as const
    return unitSpecOn(machine, command)
  }

  inspect(id: VmId): Promise<MonitorState> {
    return this.#faults.run('inspect', () => {
      const state = this.stateOf(id)
      const restoring = this.#restoring.get(id)
      // One inspection sees the guest that is being read, and the next one sees the guest that is there.
      if (restoring?.seen === true && this.restoresAlone) this.#load(id, restoring)
      else if (restoring !== undefined) restoring.seen = true
      return state
    })
  }

  ensureRunning(id: VmId, signal: AbortSignal): Promise<void> {
    return this.#turn('ensureRunning', { id, kind: 'running' }, signal)
  }

  resumeFromSave(id: VmId, signal: AbortSignal): Promise<void> {
    return this.#turn('resumeFromSave', { id, kind: 'running' }, signal)
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

  agentListens(id: VmId): Promise<boolean> {
    return this.#faults.run('agentListens', () => {
      if (this.stateOf(id).kind === 'silent')
        throw new HostFault('monitor_unreachable', `asking for the agent of VM ${id}`)
      return this.agents.has(id) && this.stateOf(id).kind === 'running'
    })
  }

  diskCounters(id: VmId): Promise<DiskCounters | undefined> {
    return this.#faults.run('diskCounters', () => {
      if (!this.#states.has(id)) throw new HostFault('monitor_unreachable', `asking the monitor of VM ${id}`)
      return this.counters.get(id) ?? NOTHING_YET
    })
  }

  installed(): Promise<SavingMonitor> {
    return this.#faults.run('installed', () => this.#program())
  }

  save({ id, path, mayRun }: SavedGuest, signal: AbortSignal): Promise<SavingMonitor> {
    const write = (): SavingMonitor => {
      const { kind } = this.#live(id)
      if (kind !== 'paused') throw new HostFault('save_failed', `saving VM ${id}: the guest is ${kind}`)
      const saving = { ...this.#program(), version: this.#versions.get(id) ?? this.version }
      const mismatch = monitorMismatch(saving, this.#program())
      if (mismatch !== undefined) throw new HostFault('save_failed', `saving VM ${id}: ${mismatch.words}`)
      if (this.#savedAndStill.has(id)) {
        if (mayRun !== true)
          throw new HostFault('save_failed', `saving VM ${id}: it was saved and has not run`)
        this.#progress(id)
      }
      this.#savedAndStill.add(id)
      const memory = this.memoryOf(id)
      this.files.write(path, { id, memory, whole: true })
      if (this.frozen.has(id)) this.#savedFrozen.add(memory.life)
      else this.#savedFrozen.delete(memory.life)
      return saving
    }
    return this.#faults.run('save', write, signal)
  }

  ensureRestored({ id }: RestoredGuest, signal: AbortSignal): Promise<void> {
    const restore = (): void => {
      const restoring = this.#restoring.get(id)
      if (restoring !== undefined) this.#load(id, restoring)
      if (this.stateOf(id).kind === 'silent')
        throw new HostFault('restore_failed', `restoring VM ${id}: its monitor has ended`)
    }
    return this.#faults.run('ensureRestored', restore, signal)
  }

  /** An agent ends its guest in order; a guest without one does not hear it. */
  askToEnd(id: VmId, signal: AbortSignal): Promise<void> {
    const ask = (): void => {
      this.#live(id)
      this.askedToEnd.push(id)
      // A guest ends only when all of its file systems are written.
      if (!this.#hears(id) || this.frozen.has(id)) return
      this.ended(id)
      this.onExit(id, 0)
    }
    return this.#faults.run('askToEnd', ask, signal)
  }

  async #freeze(id: VmId, signal: AbortSignal): Promise<FreezeOutcome> {
    const freeze = (): FreezeOutcome => {
      if (!this.#hears(id)) return 'none'
      this.frozen.add(id)
      return this.mute.has(id) ? 'unknown' : 'frozen'
    }
    try {
      return await this.#faults.run('freeze', freeze, signal)
    } catch (error) {
      if (!signal.aborted && !(error instanceof HostFault)) throw error
      // The guest is frozen although no caller heard of it, so the caller that reports failure also thaws it.
      if (this.mute.has(id)) return 'unknown'
      this.frozen.delete(id)
      return 'none'
    }
  }

  async #thaw(id: VmId, signal: AbortSignal): Promise<boolean> {
    const thaw = (): boolean => {
      if (this.stateOf(id).kind === 'silent') return true
      if (!this.#hears(id)) return false
      this.frozen.delete(id)
      return !this.mute.has(id)
    }
    // A fault stands for a lost answer.
    return this.#faults.run('thaw', thaw, signal).catch(() => false)
  }

  /** Whether an agent obeys: never in a paused guest. */
  #hears(id: VmId): boolean {
    return this.agents.has(id) && !this.busy.has(id) && this.stateOf(id).kind === 'running'
  }

  watch(onChange: (id: VmId) => void): void {
    this.#onChange = onChange
  }

  /** Returns the memory of a guest that is alive. */
  memoryOf(id: VmId): GuestMemory {
    const memory = this.#memories.get(id)
    if (memory === undefined) throw new Error(`VM ${id} has no guest`)
    return memory
  }

  /** The guest makes progress, if it runs. */
  run(id: VmId): void {
    if (this.stateOf(id).kind === 'running') this.#progress(id)
  }

  /** The guest writes, and the pool has no room. */
  fillPool(id: VmId): void {
    const { disk } = this.#live(id)
    this.#withoutRoom.add(id)
    this.become(id, { kind: 'stalled', status: 'io-error', disk })
  }

  /** The guest continues the next time it is resumed. */
  makeRoom(id: VmId): void {
    this.#withoutRoom.delete(id)
  }

  /** Returns what a monitor would answer now. */
  stateOf(id: VmId): MonitorState {
    return this.#states.get(id) ?? { kind: 'silent' }
  }

  /** Returns whether a unit like this executes this monitor's program. */
  runs({ command: [program] }: UnitSpec): boolean {
    return program === `${FOLDER}${this.program}`
  }

  /**
   * Notes that a unit executed the monitor's program: it answers from now on, and shows its guest a disk of this size.
   */
  started(id: VmId, spec: UnitSpec, diskMib: number): void {
    this.#versions.set(id, this.version)
    const [, , limits = ''] = spec.command
    const disk: Disk = { sizeMib: diskMib, ...JSON.parse(limits.replace('limits=', '')) }
    const path = spec.command.find((word) => word.startsWith(RESTORE))?.slice(RESTORE.length)
    if (path !== undefined) {
      this.#restoring.set(id, { file: this.files.at(path), disk, seen: false })
      return this.become(id, { kind: 'restoring' })
    }
    this.lives += 1
    this.#memories.set(id, { life: this.lives, progress: 0 })
    this.become(id, { kind: spec.command.includes('-S') ? 'paused' : 'running', disk })
  }

  /** Notes that the monitor's process is gone. */
  ended(id: VmId): void {
    for (const guests of [this.#withoutRoom, this.#savedAndStill, this.frozen]) guests.delete(id)
    this.#restoring.delete(id)
    this.#memories.delete(id)
    if (this.#states.delete(id)) this.#onChange(id)
  }

  /** Puts a monitor into any state, e.g. `broken`. */
  become(id: VmId, state: MonitorState): void {
    if (state.kind !== 'silent' && state.kind !== 'restoring' && !this.#memories.has(id)) {
      this.#memories.set(id, { life: ++this.lives, progress: 0 })
    }
    this.#states.set(id, state)
    if (state.kind === 'running') this.#progress(id)
    this.#onChange(id)
  }

  #program(): SavingMonitor {
    return { program: this.program, version: this.version, accelerator: 'none', form: 'mapped' }
  }

  /** Loads the whole guest, or ends its process. */
  #load(id: VmId, { file, disk }: Restoring): void {
    this.#restoring.delete(id)
    if (file === undefined || !file.whole || file.id !== id) {
      this.ended(id)
      return this.onExit(id, 1)
    }
    this.#memories.set(id, file.memory)
    if (this.#savedFrozen.has(file.memory.life)) this.frozen.add(id)
    this.become(id, { kind: 'paused', disk })
  }

  #progress(id: VmId): void {
    this.#savedAndStill.delete(id)
    const { life, progress } = this.memoryOf(id)
    const furthest = this.#furthest.get(life) ?? 0
    if (progress < furthest) this.relived.push(id)
    this.#furthest.set(life, progress + 1)
    this.#memories.set(id, { life, progress: progress + 1 })
  }

  #turn(
    method: MonitorMethod,
    { id, kind }: { id: VmId; kind: 'running' | 'paused' },
    signal: AbortSignal,
  ): Promise<void> {
    const effect = (): void => {
      if (kind === 'paused' && this.stateOf(id).kind === 'restoring') return
      const live = this.#live(id)
      if (live.kind === kind || (live.kind === 'stalled' && kind === 'paused')) return
      if (live.kind !== 'stalled' || !this.#withoutRoom.has(id))
        return this.become(id, { kind, disk: live.disk })
      // The guest ran and paused again, which its events report.
      this.become(id, live)
      throw new HostFault('disk_io_error', `resuming VM ${id}`)
    }
    return this.#faults.run(method, effect, signal)
  }

  #live(id: VmId): LiveMonitor {
    const state = this.stateOf(id)
    if (state.kind === 'silent') throw new HostFault('monitor_unreachable', `asking the monitor of VM ${id}`)
    if (state.kind === 'broken' || state.kind === 'restoring')
      throw new HostFault('monitor_refused', `asking the monitor of VM ${id}`)
    return state
  }
}

const NOTHING_YET: DiskCounters = { readBytes: 0, readOperations: 0, writtenBytes: 0, writeOperations: 0 }
