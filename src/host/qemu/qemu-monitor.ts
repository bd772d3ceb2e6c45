import { readFileSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { MonitorState } from '../../core/plan/world.ts'
import type { MonitorCapabilities } from '../../core/unit/capabilities.ts'
import type { Architecture } from '../../core/unit/kernel-arguments.ts'
import type { MachineSpec } from '../../core/unit/machine-spec.ts'
import { qemuUnitSpec, qmpSocketPath } from '../../core/unit/qemu-command.ts'
import type { Accelerator, QemuHost } from '../../core/unit/qemu-command.ts'
import { monitorStateOf } from '../../core/unit/qemu-run-state.ts'
import { knownTscKhz } from '../../core/unit/tsc-frequency.ts'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'
import type { VmId } from '../../core/vm/ids.ts'
import { abortable } from '../../lib/abortable.ts'
import type { Log } from '../../log/log.ts'
import type { Monitor } from '../../ports/monitor.ts'
import { QmpLost, QmpRefusal } from './qmp-error.ts'
import { QmpClient } from './qmp.ts'
import type { QmpEvent } from './qmp.ts'

export type QemuMonitorOptions = {
  /** Absolute path of qemu-system-*. */
  readonly program: string
  readonly accelerator: Accelerator
  readonly architecture?: Architecture
  /** Holds each guest's runtime directory. */
  readonly runDirectory?: string
  readonly greetingMs?: number
  readonly log: Log
}

/** Events after which a guest's run state is another (QEMU QMP Reference Manual). */
const STATE_EVENTS: ReadonlySet<string> = new Set([
  'BLOCK_IO_ERROR',
  'GUEST_PANICKED',
  'RESUME',
  'SHUTDOWN',
  'STOP',
  'SUSPEND',
  'WAKEUP',
  'WATCHDOG',
])

/**
 * QEMU over QMP. One connection a VM, made when first asked and kept for its events; a lost one is made anew by the next
 * question. A monitor that does not exist, is not ready or is gone is `silent`: only its unit tells which.
 */
export class QemuMonitor implements Monitor {
  readonly capabilities: MonitorCapabilities = {
    pause: true,
    startPaused: true,
    // A running guest learns of a new size through `block_resize` only, which no step asks for.
    growDiskOnline: false,
    vcpusMax: limits.cpuMillicoresMax / 1000,
  }
  readonly #host: QemuHost
  readonly #greetingMs: number
  readonly #log: Log
  readonly #clients = new Map<VmId, Promise<QmpClient>>()
  #onChange: (id: VmId) => void = () => {}

  constructor({ program, accelerator, architecture, runDirectory, greetingMs, log }: QemuMonitorOptions) {
    const tscKhz = knownTscKhz(readFileSync('/proc/cpuinfo', 'utf8'))
    this.#host = {
      program,
      accelerator,
      architecture: architecture ?? (process.arch === 'arm64' ? 'arm64' : 'x64'),
      runDirectory: runDirectory ?? '/run/vmhostd/vm',
      ...(tscKhz === undefined ? {} : { tscKhz }),
    }
    this.#greetingMs = greetingMs ?? limits.qmpGreetingMs
    this.#log = log
  }

  unitSpec(machine: MachineSpec): UnitSpec {
    return qemuUnitSpec(machine, this.#host)
  }

  async inspect(id: VmId): Promise<MonitorState> {
    try {
      const client = await this.#client(id)
      return monitorStateOf(await queryStatus(client))
    } catch (error) {
      if (error instanceof QmpLost && MEANS_SILENT.has(error.why)) return { kind: 'silent' }
      throw faultOf(error, `asking the monitor of VM ${id} for its state`)
    }
  }

  async ensureRunning(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#ensure({ id, kind: 'running', command: 'cont', doing: `resuming VM ${id}`, signal })
  }

  async ensurePaused(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#ensure({ id, kind: 'paused', command: 'stop', doing: `pausing VM ${id}`, signal })
  }

  watch(onChange: (id: VmId) => void): void {
    this.#onChange = onChange
  }

  /** Drops all connections; guests go on. */
  close(): void {
    const clients = [...this.#clients.values()]
    this.#clients.clear()
    for (const client of clients) void client.then((c) => c.close(), ignored)
  }

  async #ensure(change: Change): Promise<void> {
    const { id, kind, command, doing, signal } = change
    try {
      const client = await abortable(this.#client(id), signal)
      if (monitorStateOf(await queryStatus(client, signal)).kind === kind) return
      await client.execute(command, undefined, signal)
    } catch (error) {
      throw faultOf(error, doing)
    }
  }

  #client(id: VmId): Promise<QmpClient> {
    const known = this.#clients.get(id)
    if (known !== undefined) return known
    const forget = (): boolean => this.#clients.get(id) === connecting && this.#clients.delete(id)
    const connecting = QmpClient.connect(qmpSocketPath(this.#host.runDirectory, id), {
      greetingMs: this.#greetingMs,
      onEvent: (event) => this.#take(id, event),
      onClose: () => {
        if (forget()) this.#onChange(id)
      },
    })
    this.#clients.set(id, connecting)
    connecting.catch(forget)
    return connecting
  }

  #take(id: VmId, { event, data }: QmpEvent): void {
    if (!STATE_EVENTS.has(event)) return
    this.#log.debug({ vm_id: id, event, data }, 'the monitor reports a change of state')
    this.#onChange(id)
  }
}

type Change = {
  readonly id: VmId
  readonly kind: MonitorState['kind']
  readonly command: string
  readonly doing: string
  readonly signal: AbortSignal
}

/** Nobody listens (yet, or any more), or somebody does and has not come to answering; unix(7), connect(2). */
const MEANS_SILENT: ReadonlySet<string> = new Set([
  ...['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EAGAIN'],
  ...['closed', 'no greeting', 'no answer'],
])

async function queryStatus(client: QmpClient, signal?: AbortSignal): Promise<string> {
  const { status } = (await client.execute('query-status', undefined, signal)) as { status?: unknown }
  return String(status)
}

function faultOf(error: unknown, doing: string): unknown {
  if (error instanceof QmpRefusal) return new HostFault('monitor_refused', doing, { cause: error })
  if (error instanceof QmpLost) return new HostFault('monitor_unreachable', doing, { cause: error })
  return error
}

const ignored = (): void => {}
