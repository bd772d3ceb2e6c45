import { isBusError } from './bus.ts'
import { NO_SUCH_UNIT, UNIT } from './bus-names.ts'
import type { SystemdBus } from './systemd-bus.ts'

/**
 * Returns whether this host shuts down, for whatever reason: power off, reboot, kexec, or a reboot of its userspace.
 * All of these start shutdown.target (systemd.special(7)). Throws HostFault `systemd_unavailable`.
 */
export async function isHostShuttingDown(bus: SystemdBus): Promise<boolean> {
  try {
    const [path] = await bus.callManager('GetUnit', 's', ['shutdown.target'])
    const property = (name: string): Promise<unknown> => bus.property(String(path), UNIT, name)
    // A job of this target is its start: nothing ever stops it.
    const [state, job] = await Promise.all([property('ActiveState'), property('Job')])
    return state === 'active' || (Array.isArray(job) && job[0] !== 0)
  } catch (error) {
    // A unit that systemd has not loaded has no job.
    if (isBusError(error, NO_SUCH_UNIT)) return false
    throw error
  }
}
