import { setCloseOnExec } from '../ffi/descriptor.ts'

export type InheritedDescriptor = { readonly name: string; readonly fd: number }

/** Descriptors that systemd passes start here (SD_LISTEN_FDS_START, sd_listen_fds(3)). */
const FIRST = 3

/**
 * The descriptors that systemd kept for this unit and handed to this process, with the names they were stored under. The
 * variables that say so are taken out of the environment, and the descriptors kept from programs run later.
 */
export function takeInheritedDescriptors(
  environment: NodeJS.ProcessEnv = process.env,
  ownPid = process.pid,
): readonly InheritedDescriptor[] {
  const { LISTEN_PID: pid, LISTEN_FDS: count, LISTEN_FDNAMES: names = '' } = environment
  for (const variable of ['LISTEN_PID', 'LISTEN_PIDFDID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) {
    delete environment[variable]
  }
  // Meant for a parent of ours.
  if (Number(pid) !== ownPid) return []
  const fdNames = names.split(':')
  return Array.from({ length: Number(count) }, (_, index) => {
    const fd = FIRST + index
    setCloseOnExec(fd)
    return { name: fdNames[index] ?? '', fd }
  })
}
