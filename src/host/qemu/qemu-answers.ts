/**
 * Questions to QEMU, with their answers checked. A monitor that its guest took over may answer anything. Each function
 * throws MonitorRefusal if the answer does not have what was requested, and what {@link QmpClient.execute} throws.
 */
import type { DiskCounters } from '../../core/world/counters.ts'
import { diskCountersIn, diskIn } from '../../core/monitor/qemu-state.ts'
import type { QemuDisk } from '../../core/monitor/qemu-state.ts'
import { isCount } from '../../lib/parsed-values.ts'
import { MonitorRefusal, monitorText } from '../monitors/monitor-error.ts'
import type { QmpClient } from './qmp.ts'

/** Asks for the run state (QEMU QMP Reference Manual, query-status). */
export async function statusOf(client: QmpClient, signal?: AbortSignal): Promise<string> {
  const answer = await client.execute('query-status', undefined, signal)
  const { status } = (answer ?? {}) as { status?: unknown }
  if (typeof status !== 'string') throw new MonitorRefusal({ desc: 'it shows no run state' })
  return monitorText(status)
}

export const diskOf = async (client: QmpClient, signal?: AbortSignal): Promise<QemuDisk> =>
  diskIn(await client.execute('query-block', undefined, signal)) ?? missingDisk()

export const diskCountersOf = async (client: QmpClient): Promise<DiskCounters> =>
  diskCountersIn(await client.execute('query-blockstats')) ?? missingDisk()

/** Throws, because every command line of ours has a disk, and a guest cannot remove it. */
function missingDisk(): never {
  throw new MonitorRefusal({ desc: 'it shows no disk of ours' })
}

type CharacterDevice = { readonly label?: unknown; readonly 'frontend-open'?: unknown } | null

/** Asks whether the guest has the agent's port open: `frontend-open` (QEMU QMP Reference Manual, query-chardev). */
export async function isAgentOpen(client: QmpClient): Promise<boolean> {
  const answer = await client.execute('query-chardev')
  if (!Array.isArray(answer)) throw new MonitorRefusal({ desc: 'it shows no list of its devices' })
  return (answer as readonly CharacterDevice[]).some(
    (device) => device?.label === 'agent' && device['frontend-open'] === true,
  )
}

/** A save, as QEMU shows it; without a status if there was none. */
export type Migration = { readonly status?: unknown; readonly 'error-desc'?: unknown }

type Capability = { readonly capability?: unknown; readonly state?: unknown } | null

/** Asks whether a save waits before its end (QEMU QMP Reference Manual, query-migrate-capabilities). */
export async function canPauseAtEnd(client: QmpClient): Promise<boolean> {
  const answer = await client.execute('query-migrate-capabilities')
  if (!Array.isArray(answer)) throw new MonitorRefusal({ desc: 'it shows no list of its capabilities' })
  return (answer as readonly Capability[]).some(
    (one) => one?.capability === 'pause-before-switchover' && one.state === true,
  )
}

/** Asks for a thread that runs the guest (QEMU QMP Reference Manual, query-cpus-fast). */
export async function guestThreadOf(client: QmpClient): Promise<number> {
  const answer = await client.execute('query-cpus-fast')
  const [first] = (Array.isArray(answer) ? answer : []) as readonly ({ 'thread-id'?: unknown } | null)[]
  const thread = first?.['thread-id']
  if (!isCount(thread) || thread === 0) throw new MonitorRefusal({ desc: 'it shows no thread of its guest' })
  return thread
}

/** Asks for the newest save (QEMU QMP Reference Manual, query-migrate). */
export async function migrationOf(client: QmpClient): Promise<Migration> {
  const answer = await client.execute('query-migrate')
  if (typeof answer !== 'object' || answer === null)
    throw new MonitorRefusal({ desc: 'it shows no state of a save' })
  return answer
}
