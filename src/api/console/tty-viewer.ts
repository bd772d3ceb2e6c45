import { limits } from '../../config/limits.ts'
import { err, ok } from '../../lib/result.ts'
import type { Rejection } from '../../core/errors.ts'
import type { ObservedState, VmRecord } from '../../core/vm/record.ts'
import type { Result } from '../../lib/result.ts'
import type { ConsoleHub } from '../../owners/console/console-hub.ts'
import type { Watching } from '../../owners/console/watched-console.ts'
import type { OpenedConsole } from './console-socket.ts'

/** Takes a place at the serial console of a VM, or says why the VM has none. */
export function openTty(
  hub: ConsoleHub,
  { id, deleting, observed }: VmRecord,
  watching: Watching,
): Result<OpenedConsole, Rejection> {
  const standing = hub.standing(id)
  const isLost = standing === 'detached' && HAS_GUEST.includes(observed.state)
  if (deleting && standing !== 'attached' && standing !== 'detached')
    return err({ code: 'vm_deleting', detail: `${id} is being deleted, and its console is gone` })
  if (!watching.follow && (standing === 'none' || isLost))
    return err({ code: 'vm_not_running', detail: notRunning(id, observed.state) })
  const release = hub.reserve(id)
  if (release === undefined) {
    const detail = `${limits.consoleViewersMax} viewers watch the console of ${id} already`
    return err({ code: 'console_viewers_full', detail })
  }
  return ok({ begin: (viewer) => hub.watch(id, viewer, watching), abandon: release })
}

/** States in which there is a guest, which should then have a console. */
const HAS_GUEST: readonly ObservedState[] = ['running', 'pausing', 'paused']

function notRunning(id: string, state: ObservedState): string {
  if (HAS_GUEST.includes(state))
    return `${id} is ${state}, but its console is not stored: stop it and start it again`
  // The VM has no console since the host's last boot; a sleep alone keeps the console.
  const next = state === 'sleeping' || state === 'waking' ? 'its wake' : 'its next start'
  return `${id} is ${state}: start it, or connect with follow=true to wait for ${next}`
}
