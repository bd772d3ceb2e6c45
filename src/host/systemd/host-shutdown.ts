import { BusError, valueOf } from './bus.ts'
import { PROPERTIES, UNIT } from './bus-names.ts'
import type { SystemdBus } from './systemd-bus.ts'

/**
 * Returns whether this host shuts down, for whatever reason: power off, reboot, kexec, or a reboot of its userspace.
 * All of these start shutdown.target (systemd.special(7)). Throws HostFault `systemd_unavailable`.
 */
export async function isHostShuttingDown(bus: SystemdBus): Promise<boolean> {
  try {
    const [path] = await bus.callManager('GetUnit', 's', ['shutdown.target'])
    const property = async (name: string): Promise<unknown> => {
      const call = { path: String(path), interface: PROPERTIES, member: 'Get', signature: 'ss' }
      return valueOf((await bus.call({ ...call, body: [UNIT, name] }))[0])
    }
    // A job of this target is its start: nothing ever stops it.
    const [state, job] = await Promise.all([property('ActiveState'), property('Job')])
    return state === 'active' || (Array.isArray(job) && job[0] !== 0)
  } catch (error) {
    // A unit that systemd has not loaded has no job.
    if (error instanceof BusError && error.errorName.endsWith('.NoSuchUnit')) return false
    throw error
  }
}
