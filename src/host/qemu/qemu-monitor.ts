import { existsSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { MonitorState } from '../../core/world/world.ts'
import type { SavingMonitor } from '../../core/world/saved-state.ts'
import type { DiskCounters } from '../../core/world/counters.ts'
import type { MonitorCapabilities, MachineSpec } from '../../core/monitor/machine-spec.ts'
import type { Architecture } from '../../core/monitor/kernel-arguments.ts'
import { agentSocketPath, qemuUnitSpec, qemuMemoryMib } from '../../core/monitor/qemu-command.ts'
import type { Accelerator, QemuHost } from '../../core/monitor/qemu-command.ts'
import { resizeArguments, throttleArguments, monitorStateOf } from '../../core/monitor/qemu-state.ts'
import { saveFormOf } from '../../core/monitor/qemu-save.ts'
import { monitorMismatch } from '../../core/saved/judge-saved-state.ts'
import type { MonitorMismatch } from '../../core/saved/judge-saved-state.ts'
import type { QemuSaveForm } from '../../core/monitor/qemu-save.ts'
import { knownTscKhz } from '../../core/monitor/kernel-arguments.ts'
import { EMULATED, processorOf } from '../../core/monitor/processor.ts'
import type { Processor } from '../../core/monitor/processor.ts'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'
import type { DiskLimits } from '../../core/desired.ts'
import type { VmId } from '../../core/ids.ts'
import { abortable, never } from '../../lib/abortable.ts'
import type { Log } from '../../log/log.ts'
import type { Monitor, RestoredGuest, SavedGuest } from '../../ports/monitor.ts'
import { GuestAgents } from '../guest-agent/guest-agents.ts'
import { diskCountersOf, diskOf, isAgentOpen, migrationOf, statusOf } from './qemu-answers.ts'
import { AgentPorts } from './agent-ports.ts'
import {
  checkSavable,
  endSave,
  isUnderWay,
  leaveFormerSave,
  resumeFromSave,
  saveGuest,
  takeDiskBack,
} from './qemu-saving.ts'
import { InstalledProgram } from '../monitors/installed-program.ts'
import { qemuVersion } from './qemu-version.ts'
import { QmpClients } from './qmp-clients.ts'
import { faultOf, restoreFaultOf, MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'
import { given } from '../../lib/given.ts'
import type { QmpClient, QmpEvent } from './qmp.ts'

export type QemuMonitorOptions = {
  /** The absolute path of qemu-system-*. */
  readonly program: string
  readonly accelerator: Accelerator
  readonly architecture?: Architecture
  /** The parent of each guest's runtime directory. */
  readonly runDirectory?: string
  readonly greetingMs?: number
  /** Saves as a QEMU before 9.0 does, so that a test can do so with a later one. */
  readonly savesStreams?: boolean
  readonly log: Log
}

/** The events after which a guest's run state has changed (QEMU QMP Reference Manual). */
const STATE_EVENTS: ReadonlySet<string> = new Set([
  'BLOCK_IO_ERROR',
  'GUEST_PANICKED',
  'MIGRATION',
  'RESUME',
  'SHUTDOWN',
  'STOP',
  'SUSPEND',
  'WAKEUP',
  'WATCHDOG',
])

/**
 * Controls QEMU over QMP. A monitor that does not exist, is not ready or is gone is `silent`: only its unit shows
 * which.
 *
 * No device informs a guest that it was restored. microvm accepts a `vmgenid`, but has no ACPI table through which a
 * guest would find it (observed with QEMU 10.0). Instead the guest's agent gets the time, and can reseed what it wants
 * at that moment.
 */
export class QemuMonitor implements Monitor {
  readonly agent: GuestAgents
  readonly processor: Processor
  readonly #host: QemuHost
  readonly #log: Log
  readonly #savesStreams: boolean
  readonly #clients: QmpClients
  readonly #installed: InstalledProgram<string>
  readonly #agentPorts = new AgentPorts()
  #onChange: (id: VmId) => void = () => {}

  constructor(options: QemuMonitorOptions) {
    const { program, accelerator, architecture, runDirectory, greetingMs, log } = options
    const cpuinfo = readFileSync('/proc/cpuinfo', 'utf8')
    const tscKhz = knownTscKhz(cpuinfo)
    this.processor = accelerator === 'kvm' ? processorOf(cpuinfo) : EMULATED
    this.#host = {
      program,
      accelerator,
      architecture: architecture ?? (process.arch === 'arm64' ? 'arm64' : 'x64'),
      runDirectory: runDirectory ?? '/run/vmhostd/vm',
      ...given({ tscKhz }),
      // Packets of a guest then pass through a thread of the kernel instead of its monitor.
      vhostNet: existsSync('/dev/vhost-net'),
    }
    this.#installed = new InstalledProgram(program, qemuVersion)
    this.#log = log
    this.#savesStreams = options.savesStreams === true
    this.#clients = new QmpClients({
      runDirectory: this.#host.runDirectory,
      greetingMs: greetingMs ?? limits.qmpGreetingMs,
      onEvent: (id, event) => this.#take(id, event),
      onClose: (id) => {
        this.#agentPorts.forget(id)
        this.#onChange(id)
      },
    })
    this.agent = new GuestAgents({
      address: (id) => ({ path: agentSocketPath(this.#host.runDirectory, id) }),
      listens: async (id) => isAgentOpen(await this.#clients.of(id)),
      log,
    })
  }

  /** Returns the capabilities of the program as it was last seen installed. */
  get capabilities(): MonitorCapabilities {
    return {
      startPaused: true,
      save: this.#formOf(this.#installed.lastVersion) !== undefined,
      kernelFormats: [this.#host.architecture === 'arm64' ? 'Image' : 'bzImage', 'ELF'],
    }
  }

  memoryMib(guestMib: number): number {
    return qemuMemoryMib(guestMib, this.#host.accelerator)
  }

  unitSpec(machine: MachineSpec): UnitSpec {
    return qemuUnitSpec(machine, this.#host)
  }

  async inspect(id: VmId): Promise<MonitorState> {
    try {
      return await stateOf(await this.#clients.of(id))
    } catch (error) {
      if (error instanceof MonitorLost && error.meansSilent) return { kind: 'silent' }
      throw faultOf(error, `asking the monitor of VM ${id} for its state`)
    }
  }

  async ensureRunning(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#talk({ id, doing: `resuming VM ${id}`, signal }, async (client) => {
      const { kind } = await lookUnsaved(client, signal)
      if (kind === 'running') return
      // QEMU would run the guest as soon as it is restored, and the moment would be unknown.
      if (kind === 'restoring') throw new MonitorRefusal({ desc: 'the guest is being restored' })
      await client.execute('cont', undefined, signal)
      if (kind === 'stalled') await proveResumed(client, id, signal)
    })
  }

  async resumeFromSave(id: VmId, signal: AbortSignal): Promise<void> {
    const doing = `resuming VM ${id} from its save`
    const runs = await this.#talk({ id, doing, signal }, (client) => resumeFromSave(client))
    if (!runs) await this.ensureRunning(id, signal)
  }

  async ensurePaused(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#talk({ id, doing: `pausing VM ${id}`, signal }, async (client) => {
      const { kind } = await lookUnsaved(client, signal)
      const stands = kind === 'paused' || kind === 'stalled' || kind === 'restoring'
      if (!stands) await client.execute('stop', undefined, signal)
    })
  }

  async ensureDiskSize(id: VmId, sizeMib: number, signal: AbortSignal): Promise<void> {
    const doing = `growing the disk of VM ${id} to ${sizeMib} MiB`
    await this.#talk({ id, doing, signal }, async (client) => {
      const [{ kind }, live] = await Promise.all([stateOf(client, signal), diskOf(client, signal)])
      if (live.sizeMib >= sizeMib) return
      // The guest may not have run since its restore.
      if (kind === 'paused') await takeDiskBack(client)
      await client.execute('block_resize', resizeArguments(sizeMib), signal)
    })
  }

  async ensureDiskLimits(id: VmId, diskLimits: DiskLimits, signal: AbortSignal): Promise<void> {
    await this.#talk({ id, doing: `limiting the disk of VM ${id}`, signal }, async (client) => {
      const { qdev } = await diskOf(client, signal)
      await client.execute('block_set_io_throttle', throttleArguments(qdev, diskLimits), signal)
    })
  }

  async installed(): Promise<SavingMonitor> {
    return this.#program(await this.#installed.version())
  }

  async save({ id, path, mayRun = false }: SavedGuest, signal: AbortSignal): Promise<SavingMonitor> {
    return this.#talk({ id, doing: `saving VM ${id}`, signal, refused: 'save_failed' }, async (client) => {
      const { kind } = await lookUnsaved(client, signal)
      if (kind !== 'paused') throw new MonitorRefusal({ desc: `the guest is ${kind}` })
      const saving = this.#program(await checkSavable(client, signal))
      const mismatch = monitorMismatch(saving, await this.installed())
      // The memory would be written in vain, because nothing here could restore the guest.
      if (mismatch !== undefined) throw new MonitorRefusal({ desc: notRestorable(mismatch) })
      // A daemon may have ended during its save.
      await leaveFormerSave(client, mayRun, signal)
      await saveGuest(client, { path, form: saving.form }, signal)
      return saving
    })
  }

  async ensureRestored({ id }: RestoredGuest, signal: AbortSignal): Promise<void> {
    try {
      const client = await this.#clients.ofStarting(id, signal)
      const there = async (): Promise<MonitorState | undefined> => {
        const state = await stateOf(client, signal)
        return state.kind === 'restoring' ? undefined : state
      }
      const state = await client.onceSo(there, signal)
      if (state.kind === 'broken') throw new MonitorRefusal({ desc: `the monitor says ${state.status}` })
    } catch (error) {
      throw restoreFaultOf(error, id)
    }
  }

  async askToEnd(id: VmId, signal: AbortSignal): Promise<void> {
    if (await this.agent.shutDown(id, 'powerdown', signal)) return
    await this.#talk({ id, doing: `asking the guest of VM ${id} to end`, signal }, (client) =>
      client.execute('system_powerdown', undefined, signal),
    )
  }

  async agentListens(id: VmId): Promise<boolean> {
    const doing = `asking the monitor of VM ${id} for its agent`
    return (
      this.#agentPorts.known(id) ??
      this.#talk({ id, doing, signal: never }, (client) => this.#agentPorts.ask(id, client))
    )
  }

  async diskCounters(id: VmId): Promise<DiskCounters> {
    return this.#talk({ id, doing: `reading the disk counters of VM ${id}`, signal: never }, diskCountersOf)
  }

  watch(onChange: (id: VmId) => void): void {
    this.#onChange = onChange
  }

  /** Closes all connections. Guests continue. */
  close(): void {
    this.agent.close()
    this.#clients.close()
  }

  #program(version: string): SavingMonitor & { readonly form: QemuSaveForm } {
    const { program, accelerator } = this.#host
    return { program: basename(program), version, accelerator, form: this.#formOf(version) ?? 'mapped' }
  }

  #formOf(version: string | undefined): QemuSaveForm | undefined {
    const form = saveFormOf(version)
    return form === 'mapped' && this.#savesStreams ? 'stream' : form
  }

  async #talk<T>({ id, doing, signal, refused }: Talk, say: (client: QmpClient) => Promise<T>): Promise<T> {
    try {
      return await say(await abortable(this.#clients.of(id), signal))
    } catch (error) {
      throw faultOf(error, doing, refused)
    }
  }

  #take(id: VmId, reported: QmpEvent): void {
    this.#agentPorts.take(id, reported)
    const { event } = reported
    if (!STATE_EVENTS.has(event)) return
    this.#log.debug({ vm_id: id, event }, 'monitor state changed')
    this.#onChange(id)
  }
}

const notRestorable = ({ words }: MonitorMismatch): string =>
  `the guest runs under ${words}; stop the VM and start it, once`

type Talk = {
  readonly id: VmId
  readonly doing: string
  readonly signal: AbortSignal
  /** The code of the fault for a refusal. */
  readonly refused?: FaultCode
}

/**
 * Checks that a guest really runs again. `cont` answers before the failed request is repeated. Without a second look, a
 * guest on a full pool would appear to run, and would be resumed again at each of its events.
 */
async function proveResumed(client: QmpClient, id: VmId, signal: AbortSignal): Promise<void> {
  const until = performance.now() + limits.resumeProofMs
  while (performance.now() < until) {
    await delay(limits.resumeRecheckMs)
    if ((await stateOf(client, signal)).kind !== 'stalled') continue
    const why = 'the monitor paused the guest again: the pool has no room for its writes'
    throw new HostFault('disk_io_error', `resuming VM ${id}: ${why}; it continues when there is room again`)
  }
}

const stateOf = async (client: QmpClient, signal?: AbortSignal): Promise<MonitorState> =>
  (await lookAt(client, signal)).state

/**
 * Returns the state of a guest that is not being saved; ends a save that is under way. All questions are sent at once,
 * because a client may wait for the guest. QEMU answers them in order.
 */
async function lookUnsaved(client: QmpClient, signal: AbortSignal): Promise<MonitorState> {
  const [save, { status, state }] = await Promise.all([migrationOf(client), lookAt(client, signal)])
  // While a guest is being restored, QEMU shows that as it shows a save.
  if (state.kind === 'restoring' || !isUnderWay(save, status)) return state
  await endSave(client)
  return stateOf(client, signal)
}

type Look = { readonly status: string; readonly state: MonitorState }

/**
 * Asks for the run state, and returns what it means too. Both questions are sent at once, because looks are frequent.
 */
async function lookAt(client: QmpClient, signal?: AbortSignal): Promise<Look> {
  const [status, { qdev: _qdev, ...disk }] = await Promise.all([
    statusOf(client, signal),
    diskOf(client, signal),
  ])
  return { status, state: monitorStateOf(status, disk) }
}
