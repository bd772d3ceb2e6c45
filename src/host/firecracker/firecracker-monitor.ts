import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import type { Socket } from 'node:net'
import type { DiskLimits } from '../../core/desired.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import {
  AGENT_PORT,
  DISK_DRIVE,
  firecrackerMemoryMib,
  firecrackerPaths,
  firecrackerUnitSpec,
} from '../../core/monitor/firecracker-machine.ts'
import type { FirecrackerHost } from '../../core/monitor/firecracker-machine.ts'
import { driveLimitsIn, firecrackerStateOf, rateLimiterOf } from '../../core/monitor/firecracker-state.ts'
import type { Architecture } from '../../core/monitor/kernel-arguments.ts'
import type { MachineSpec, MonitorCapabilities } from '../../core/monitor/machine-spec.ts'
import { processorOf } from '../../core/monitor/processor.ts'
import type { Processor } from '../../core/monitor/processor.ts'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'
import type { SavingMonitor } from '../../core/world/saved-state.ts'
import type { MonitorState } from '../../core/world/world.ts'
import { never } from '../../lib/abortable.ts'
import { MIB } from '../../lib/byte-units.ts'
import { outsideLogContext } from '../../log/log.ts'
import type { Log } from '../../log/log.ts'
import type { Monitor, RestoredGuest, SavedGuest } from '../../ports/monitor.ts'
import { orStorageFault } from '../files/storage-fault.ts'
import { stat } from '../files/pool-files.ts'
import { listensOnVsock } from '../guest-agent/guest-agent.ts'
import type { AgentAddress } from '../guest-agent/guest-agent.ts'
import { GuestAgents } from '../guest-agent/guest-agents.ts'
import { InstalledProgram } from '../monitors/installed-program.ts'
import {
  faultOf,
  restoreFaultOf,
  lostBy,
  MonitorLost,
  MonitorRefusal,
  monitorText,
} from '../monitors/monitor-error.ts'
import { connectToMonitor, onceListening } from '../monitors/monitor-socket.ts'
import { askFirecracker } from './firecracker-api.ts'
import type { ApiRequest } from './firecracker-api.ts'
import { loadGuest, resetVsock, saveGuest } from './firecracker-saving.ts'
import { firecrackerVersion, TooOld } from './firecracker-version.ts'
import type { FirecrackerVersion } from './firecracker-version.ts'

export type FirecrackerMonitorOptions = {
  /** The absolute path of firecracker. */
  readonly program: string
  /** Whether guests can read their metadata from a metadata service; false if absent. */
  readonly metadataService?: boolean
  readonly architecture?: Architecture
  /** The parent of each guest's runtime directory. */
  readonly runDirectory?: string
  /** Returns the path of a guest's disk. The one that its monitor names is not used. */
  readonly diskPath: (id: VmId) => string
  readonly log: Log
}

/** A Firecracker process that is known by an open connection, which ends with it. */
type Known = {
  readonly socket: Socket
  /** The size of the disk that its guest sees; undefined until it has been made true. */
  sizeMib?: number
}

/**
 * Controls Firecracker over its API. A monitor that does not exist, is not ready or is gone is `silent`: only its unit
 * shows which. Firecracker reports no events; a guest changes its state only when it is asked to, or ends with its
 * process.
 */
export class FirecrackerMonitor implements Monitor {
  readonly agent: GuestAgents
  readonly processor: Processor
  readonly capabilities: MonitorCapabilities
  readonly #host: FirecrackerHost
  readonly #installed: InstalledProgram<FirecrackerVersion>
  readonly #diskPath: (id: VmId) => string
  readonly #known = new Map<VmId, Known>()
  #onChange: (id: VmId) => void = () => {}

  constructor(options: FirecrackerMonitorOptions) {
    const { program, metadataService, architecture, runDirectory, diskPath, log } = options
    this.#diskPath = diskPath
    this.processor = processorOf(readFileSync('/proc/cpuinfo', 'utf8'))
    this.#host = {
      program,
      architecture: architecture ?? (process.arch === 'arm64' ? 'arm64' : 'x64'),
      runDirectory: runDirectory ?? '/run/vmhostd/vm',
      metadataService: metadataService === true,
    }
    this.#installed = new InstalledProgram(program, firecrackerVersion)
    this.capabilities = {
      startPaused: false,
      save: true,
      kernelFormats: [this.#host.architecture === 'arm64' ? 'Image' : 'ELF'],
    }
    const listens = (id: VmId) => listensOnVsock(this.#agentOf(id))
    this.agent = new GuestAgents({ address: (id) => this.#agentOf(id), listens, log })
  }

  /** Why the program is too old to be used, by the last look at it; undefined if that look found no such thing. */
  get refusal(): string | undefined {
    const { lastFailure } = this.#installed
    return lastFailure instanceof TooOld ? lastFailure.message : undefined
  }

  memoryMib(guestMib: number): number {
    return firecrackerMemoryMib(guestMib)
  }

  unitSpec(machine: MachineSpec): UnitSpec {
    return firecrackerUnitSpec(machine, this.#host)
  }

  async inspect(id: VmId): Promise<MonitorState> {
    try {
      return await this.#stateOf(id, never)
    } catch (error) {
      if (error instanceof MonitorLost && error.meansSilent) return { kind: 'silent' }
      throw faultOf(error, `asking the monitor of VM ${id} for its state`)
    }
  }

  async ensureRunning(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#turn(id, 'Resumed', { doing: `resuming VM ${id}`, signal })
  }

  /** Firecracker answers nothing while it writes a snapshot. */
  async resumeFromSave(id: VmId, signal: AbortSignal): Promise<void> {
    await this.ensureRunning(id, signal)
  }

  async ensurePaused(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#turn(id, 'Paused', { doing: `pausing VM ${id}`, signal })
  }

  async ensureDiskSize(id: VmId, sizeMib: number, signal: AbortSignal): Promise<void> {
    await this.#talk(`growing the disk of VM ${id} to ${sizeMib} MiB`, async () => {
      if ((await this.#sizeOf(id, signal)) >= sizeMib) return
      const now = await this.#rereadSize(id, signal)
      if (now < sizeMib) throw new MonitorRefusal({ desc: `its disk has ${now} MiB` })
    })
  }

  async ensureDiskLimits(id: VmId, diskLimits: DiskLimits, signal: AbortSignal): Promise<void> {
    await this.#talk(`limiting the disk of VM ${id}`, () =>
      this.#changeDisk(id, { rate_limiter: rateLimiterOf(diskLimits) }, signal),
    )
  }

  async installed(): Promise<SavingMonitor> {
    const { version, format } = await this.#installed.version()
    return { program: basename(this.#host.program), version, accelerator: 'kvm', format, form: 'backing' }
  }

  async save({ id, ...guest }: SavedGuest, signal: AbortSignal): Promise<SavingMonitor> {
    const doing = `saving VM ${id}`
    const task = async (): Promise<SavingMonitor> => {
      const { kind } = await this.#stateOf(id, signal)
      if (kind !== 'paused') throw new MonitorRefusal({ desc: `the guest is ${kind}` })
      const saving = await this.#runningProgram(id, signal)
      await orStorageFault(doing, () => saveGuest(guest, this.#paths(id), signal))
      return saving
    }
    return this.#talk(doing, task, 'save_failed')
  }

  /** Loads the guest unless the monitor has it already. */
  async ensureRestored({ id, ...guest }: RestoredGuest, signal: AbortSignal): Promise<void> {
    const doing = `restoring VM ${id}`
    const paths = this.#paths(id)
    try {
      const ask = (): Promise<MonitorState> => this.#kindOf(id, signal)
      if ((await onceListening(paths.api, ask, signal)).kind !== 'restoring') return
      const clock = this.#host.architecture === 'x64'
      await orStorageFault(doing, () => loadGuest(guest, paths, { clock, signal }))
      this.#onChange(id)
    } catch (error) {
      throw restoreFaultOf(error, id)
    }
  }

  /** A reboot ends Firecracker. A guest that powers off on x86 leaves it running, without a word. */
  async askToEnd(id: VmId, signal: AbortSignal): Promise<void> {
    if (await this.agent.shutDown(id, 'reboot', signal)) return
    // Firecracker has a keyboard controller on x86 only, and refuses elsewhere.
    const body = { action_type: 'SendCtrlAltDel' }
    await this.#talk(`asking the guest of VM ${id} to end`, () =>
      this.#ask(id, { method: 'PUT', target: '/actions', body }, signal),
    )
  }

  async agentListens(id: VmId): Promise<boolean> {
    return this.#talk(`asking for the agent of VM ${id}`, async () => {
      try {
        return await listensOnVsock(this.#agentOf(id))
      } catch (error) {
        throw lostBy(error)
      }
    })
  }

  /** Counts nothing: Firecracker has only differences since its last flush of metrics, for one reader. */
  async diskCounters(id: VmId): Promise<undefined> {
    await this.#talk(`reading the disk counters of VM ${id}`, () => this.#kindOf(id, never))
  }

  watch(onChange: (id: VmId) => void): void {
    this.#onChange = onChange
  }

  /** Closes all connections. Guests continue. */
  close(): void {
    this.agent.close()
    const known = [...this.#known.values()]
    this.#known.clear()
    for (const { socket } of known) socket.destroy()
  }

  async #turn(id: VmId, state: 'Paused' | 'Resumed', { doing, signal }: Turn): Promise<void> {
    await this.#talk(doing, async () => {
      const { kind } = await this.#kindOf(id, signal)
      if (kind === 'restoring' && state === 'Paused') return
      if (kind === 'restoring') throw new MonitorRefusal({ desc: 'the guest is being restored' })
      if (kind === (state === 'Paused' ? 'paused' : 'running')) return
      if (state === 'Resumed') await resetVsock(this.#paths(id), signal)
      await this.#ask(id, { method: 'PATCH', target: '/vm', body: { state } }, signal)
      this.#onChange(id)
    })
  }

  /** Asks for the run state alone. */
  async #kindOf(id: VmId, signal: AbortSignal): Promise<MonitorState> {
    const answer = await this.#ask(id, { method: 'GET', target: '/' }, signal)
    const { state } = (answer ?? {}) as { state?: unknown }
    if (typeof state !== 'string') throw new MonitorRefusal({ desc: 'it shows no state' })
    return firecrackerStateOf(monitorText(state), { sizeMib: 0 })
  }

  async #stateOf(id: VmId, signal: AbortSignal): Promise<MonitorState> {
    const state = await this.#kindOf(id, signal)
    if (state.kind !== 'running' && state.kind !== 'paused') return state
    const diskLimits = await this.#limitsOf(id, signal)
    return { kind: state.kind, disk: { sizeMib: await this.#sizeOf(id, signal), ...diskLimits } }
  }

  async #limitsOf(id: VmId, signal: AbortSignal): Promise<DiskLimits> {
    const config = await this.#ask(id, { method: 'GET', target: '/vm/config' }, signal)
    const diskLimits = driveLimitsIn(config, DISK_DRIVE)
    if (diskLimits === undefined) throw new MonitorRefusal({ desc: 'it shows no disk of ours' })
    return diskLimits
  }

  /** Returns the size that the guest sees. Firecracker does not report it, so it is made true once for each process. */
  async #sizeOf(id: VmId, signal: AbortSignal): Promise<number> {
    return this.#process(id).sizeMib ?? (await this.#rereadSize(id, signal))
  }

  /** Makes Firecracker read the size of the disk's file again, and the guest see it. */
  async #rereadSize(id: VmId, signal: AbortSignal): Promise<number> {
    const known = this.#process(id)
    const path = this.#diskPath(id)
    // Before the change: a file that grows in between counts as smaller than it is, and is read again.
    const { size } = await orStorageFault(`looking at the disk of VM ${id}`, () => stat(path))
    await this.#changeDisk(id, { path_on_host: path }, signal)
    known.sizeMib = Math.floor(size / MIB)
    return known.sizeMib
  }

  async #changeDisk(id: VmId, change: object, signal: AbortSignal): Promise<void> {
    const body = { drive_id: DISK_DRIVE, ...change }
    await this.#ask(id, { method: 'PATCH', target: `/drives/${DISK_DRIVE}`, body }, signal)
  }

  /** Returns the program that runs a guest, which may be older than the installed one. */
  async #runningProgram(id: VmId, signal: AbortSignal): Promise<SavingMonitor> {
    const installed = await this.installed()
    const answer = await this.#ask(id, { method: 'GET', target: '/version' }, signal)
    const { firecracker_version: version } = (answer ?? {}) as { firecracker_version?: unknown }
    if (version === installed.version) return installed
    const desc = `its monitor is ${monitorText(version)}, and ${installed.version} is installed`
    throw new MonitorRefusal({ desc: `${desc}; stop the VM and start it, once` })
  }

  /** Returns what is known of the process that runs a guest now. */
  #process(id: VmId): Known {
    const found = this.#known.get(id)
    if (found !== undefined) return found
    const socket = outsideLogContext(() => this.#connect(id))
    const known: Known = { socket }
    this.#known.set(id, known)
    socket.on('error', () => {})
    // Firecracker writes nothing here. One that does is not listened to until the next question about its guest.
    socket.once('data', () => {
      if (this.#known.get(id) === known) this.#known.delete(id)
      socket.destroy()
    })
    socket.on('close', () => {
      if (this.#known.get(id) !== known) return
      this.#known.delete(id)
      this.#onChange(id)
    })
    return known
  }

  #connect(id: VmId): Socket {
    try {
      return connectToMonitor(this.#paths(id).api)
    } catch (error) {
      throw lostBy(error)
    }
  }

  #ask(id: VmId, asked: ApiRequest, signal: AbortSignal): Promise<unknown> {
    return askFirecracker(this.#paths(id).api, asked, signal)
  }

  #paths(id: VmId): ReturnType<typeof firecrackerPaths> {
    return firecrackerPaths(this.#host.runDirectory, id)
  }

  #agentOf(id: VmId): AgentAddress {
    return { path: this.#paths(id).agent, vsockPort: AGENT_PORT }
  }

  async #talk<T>(doing: string, task: () => Promise<T>, refused?: FaultCode): Promise<T> {
    try {
      return await task()
    } catch (error) {
      throw faultOf(error, doing, refused)
    }
  }
}

type Turn = { readonly doing: string; readonly signal: AbortSignal }
