/** Notifications to systemd from the main process of a service (sd_notify(3)). */
import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { limits } from '../../config/limits.ts'
import { openPipe } from '../ffi/descriptor.ts'
import { ErrnoError } from '../ffi/errno-error.ts'
import { library } from '../ffi/koffi.ts'

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
