import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { MonitorState } from '../../core/plan/world.ts'
import type { DiskCounters } from '../../core/storage/disk-counters.ts'
import type { MonitorCapabilities } from '../../core/unit/capabilities.ts'
import type { Architecture } from '../../core/unit/kernel-arguments.ts'
import type { MachineSpec } from '../../core/unit/machine-spec.ts'
import { qemuUnitSpec, qmpSocketPath } from '../../core/unit/qemu-command.ts'
import type { Accelerator, QemuHost } from '../../core/unit/qemu-command.ts'
import { diskCountersIn, diskIn, resizeArguments, throttleArguments } from '../../core/unit/qemu-disk.ts'
import type { QemuDisk } from '../../core/unit/qemu-disk.ts'
import { monitorStateOf } from '../../core/unit/qemu-run-state.ts'
import { knownTscKhz } from '../../core/unit/tsc-frequency.ts'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'
import type { DiskLimits } from '../../core/vm/desired.ts'
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
    growDiskOnline: true,
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
      return await stateOf(await this.#client(id))
    } catch (error) {
      if (error instanceof QmpLost && MEANS_SILENT.has(error.why)) return { kind: 'silent' }
      throw faultOf(error, `asking the monitor of VM ${id} for its state`)
    }
  }

  async ensureRunning(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#talk({ id, doing: `resuming VM ${id}`, signal }, async (client) => {
      const { kind } = await stateOf(client, signal)
      if (kind === 'running') return
      await client.execute('cont', undefined, signal)
      if (kind === 'stalled') await proveResumed(client, id, signal)
    })
  }

  async ensurePaused(id: VmId, signal: AbortSignal): Promise<void> {
    await this.#talk({ id, doing: `pausing VM ${id}`, signal }, async (client) => {
      const { kind } = await stateOf(client, signal)
      if (kind !== 'paused' && kind !== 'stalled') await client.execute('stop', undefined, signal)
    })
  }

  async ensureDiskSize(id: VmId, sizeMib: number, signal: AbortSignal): Promise<void> {
    const doing = `growing the disk of VM ${id} to ${sizeMib} MiB`
    await this.#talk({ id, doing, signal }, async (client) => {
      const live = await diskOf(client, signal)
      if (live.sizeMib < sizeMib) await client.execute('block_resize', resizeArguments(sizeMib), signal)
    })
  }

  async ensureDiskLimits(id: VmId, diskLimits: DiskLimits, signal: AbortSignal): Promise<void> {
    await this.#talk({ id, doing: `limiting the disk of VM ${id}`, signal }, async (client) => {
      const { qdev } = await diskOf(client, signal)
      await client.execute('block_set_io_throttle', throttleArguments(qdev, diskLimits), signal)
    })
  }

  async diskCounters(id: VmId): Promise<DiskCounters> {
    return this.#talk(
      { id, doing: `reading the disk counters of VM ${id}`, signal: never },
      async (client) => {
        const counters = diskCountersIn(await client.execute('query-blockstats'))
        return counters ?? missingDisk()
      },
    )
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

  async #talk<T>({ id, doing, signal }: Talk, say: (client: QmpClient) => Promise<T>): Promise<T> {
    try {
      return await say(await abortable(this.#client(id), signal))
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

type Talk = { readonly id: VmId; readonly doing: string; readonly signal: AbortSignal }

/** Nobody listens (yet, or any more), or somebody does and has not come to answering; unix(7), connect(2). */
const MEANS_SILENT: ReadonlySet<string> = new Set([
  ...['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EAGAIN'],
  ...['closed', 'no greeting', 'no answer'],
])

/**
 * `cont` answers before the request that failed is made again. Without a second look a guest on a full pool would seem to
 * run, and be told to go on at every one of its events.
 */
async function proveResumed(client: QmpClient, id: VmId, signal: AbortSignal): Promise<void> {
  const until = performance.now() + limits.resumeProofMs
  while (performance.now() < until) {
    await delay(limits.resumeRecheckMs)
    if ((await stateOf(client, signal)).kind !== 'stalled') continue
    const why = 'the guest stands still again: the pool has no room for what it writes'
    throw new HostFault(
      'disk_io_error',
      `resuming VM ${id}: ${why}; it goes on by itself when there is room again`,
    )
  }
}

/** Two questions in one go: inspections are frequent. */
async function stateOf(client: QmpClient, signal?: AbortSignal): Promise<MonitorState> {
  const [{ status }, { qdev: _qdev, ...disk }] = await Promise.all([
    client.execute('query-status', undefined, signal) as Promise<{ status?: unknown }>,
    diskOf(client, signal),
  ])
  return monitorStateOf(String(status), disk)
}

const diskOf = async (client: QmpClient, signal?: AbortSignal): Promise<QemuDisk> =>
  diskIn(await client.execute('query-block', undefined, signal)) ?? missingDisk()

/** We put it into every command, and a guest cannot take it out. */
function missingDisk(): never {
  throw new QmpRefusal({ desc: 'it shows no disk of ours' })
}

function faultOf(error: unknown, doing: string): unknown {
  if (error instanceof QmpRefusal) return new HostFault('monitor_refused', doing, { cause: error })
  if (error instanceof QmpLost) return new HostFault('monitor_unreachable', doing, { cause: error })
  return error
}

const never = new AbortController().signal
const ignored = (): void => {}
