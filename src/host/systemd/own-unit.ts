import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { BusError } from './bus.ts'
import { SYSTEMD } from './bus-names.ts'
import { limits } from '../../config/limits.ts'
import { openPipe } from '../ffi/descriptor.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { library } from '../ffi/koffi.ts'
import type { SystemdBus } from './systemd-bus.ts'

/** The service of the daemon, as systemd sees it. */
export type OwnUnit = {
  readonly name: string
  /** Returns properties in the order of their names; undefined for one that this systemd does not have. */
  properties(iface: 'Unit' | 'Service', ...names: readonly string[]): Promise<readonly unknown[]>
}

/**
 * Returns the own unit; undefined if this process is not a service's main process. Throws HostFault
 * `systemd_unavailable`.
 */
export async function findOwnUnit(bus: SystemdBus): Promise<OwnUnit | undefined> {
  const path = await bus
    .callManager('GetUnitByPID', 'u', [process.pid])
    .then(([found]) => String(found))
    .catch(undefinedIfRefused)
  if (path === undefined) return undefined
  const properties = propertiesOf(bus, path)
  const [[name], [mainPid]] = await Promise.all([properties('Unit', 'Id'), properties('Service', 'MainPID')])
  return mainPid === process.pid ? { name: String(name), properties } : undefined
}

/**
 * Returns the unit of that name, running or not; undefined if it is not installed.
 * Throws HostFault `systemd_unavailable`.
 */
export async function findUnit(bus: SystemdBus, name: string): Promise<OwnUnit | undefined> {
  const path = await bus
    .callManager('LoadUnit', 's', [name])
    .then(([found]) => String(found))
    .catch(undefinedIfRefused)
  if (path === undefined) return undefined
  const properties = propertiesOf(bus, path)
  const [state] = await properties('Unit', 'LoadState')
  return state === 'loaded' ? { name, properties } : undefined
}

/**
 * Makes systemd count the restarts of a unit from 0. It does so by itself only when somebody starts the unit
 * (systemd.service(5), RestartSteps=), so rare crashes would add up to the longest delay. Throws HostFault or BusError.
 */
export async function forgetRestarts(bus: SystemdBus, unit: string): Promise<void> {
  await bus.callManager('ResetFailedUnit', 's', [unit])
}

const propertiesOf =
  (bus: SystemdBus, path: string): OwnUnit['properties'] =>
  (iface, ...names) =>
    Promise.all(
      names.map((name) => bus.property(path, `${SYSTEMD}.${iface}`, name).catch(undefinedIfRefused)),
    )

function undefinedIfRefused(error: unknown): undefined {
  if (error instanceof BusError) return undefined
  throw error
}

type SdNotify = (
  pid: number,
  unsetEnvironment: number,
  state: string,
  fds: readonly number[],
  count: number,
) => number

let loaded: SdNotify | undefined

/** Loads sd_pid_notify_with_fds(3); throws if libsystemd is not installed. */
function sdNotify(): SdNotify {
  loaded ??= library('libsystemd.so.0').func(
    'int sd_pid_notify_with_fds(int pid, int unset_environment, const char *state, const int *fds, unsigned int count)',
  ) as SdNotify
  return loaded
}

type Support = { readonly supported: true } | { readonly supported: false; readonly because: string }

/**
 * Checks whether this build, on this host, can pass descriptors to systemd at all. It does not check the unit it runs
 * in.
 */
export function descriptorStoreSupport(): Support {
  try {
    sdNotify()
    return { supported: true }
  } catch (error) {
    return { supported: false, because: error instanceof Error ? error.message : String(error) }
  }
}

/**
 * Sends systemd a state of this process, with descriptors if there are any (sd_notify(3)). Returns false if systemd
 * does not listen: it did not start this process, or not as a unit that may notify. Throws ErrnoError.
 */
export function notify(state: string, fds: readonly number[] = []): boolean {
  const status = sdNotify()(0, 0, state, fds, fds.length)
  if (status < 0) throw new ErrnoError(`sd_notify ${state.split('\n', 1)[0]}`, -status)
  return status > 0
}

export const notifyReady = (): boolean => notify('READY=1')

/** Keeps systemd from ending a start that lasts this long from now on (sd_notify(3), EXTEND_TIMEOUT_USEC). */
export const notifyStarting = (withinMs: number): boolean => notify(`EXTEND_TIMEOUT_USEC=${withinMs * 1000}`)

/**
 * Reports that the process ends, and keeps systemd from killing it within `withinMs` (sd_notify(3),
 * EXTEND_TIMEOUT_USEC).
 */
export const notifyStopping = (withinMs: number): boolean =>
  notify(`STOPPING=1\nEXTEND_TIMEOUT_USEC=${withinMs * 1000}`)

/**
 * Resolves when systemd has processed all earlier notifications of this process. systemd then closes the descriptor
 * that was sent with BARRIER=1 (sd_notify(3)). Rejects if that takes longer than `limits.notifyBarrierMs`.
 */
export async function notifyBarrier(): Promise<void> {
  const { readEnd, writeEnd } = openPipe()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const closed = new Socket({ fd: readEnd, readable: true, writable: false })
  closed.on('end', resolve).on('error', reject).resume()
  const late = new Error(`systemd has not read its notifications for ${limits.notifyBarrierMs} ms`)
  const deadline = setTimeout(() => reject(late), limits.notifyBarrierMs)
  try {
    try {
      if (!notify('BARRIER=1', [writeEnd]))
        reject(new Error('systemd does not listen: NOTIFY_SOCKET is not set'))
    } finally {
      closeSync(writeEnd)
    }
    await promise
  } finally {
    clearTimeout(deadline)
    closed.destroy()
  }
}
