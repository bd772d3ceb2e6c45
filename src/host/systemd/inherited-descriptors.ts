import { setCloseOnExec } from '../ffi/descriptor.ts'

export type InheritedDescriptor = { readonly name: string; readonly fd: number }

/** The first descriptor that systemd passes (SD_LISTEN_FDS_START, sd_listen_fds(3)). */
const FIRST = 3

/**
 * Takes the descriptors that systemd kept for this unit and passed to this process, with the names they were stored
 * under. Removes the variables for them from the environment, and closes the descriptors in programs that run later.
 */
export function takeInheritedDescriptors(
  environment: NodeJS.ProcessEnv = process.env,
  ownPid = process.pid,
): readonly InheritedDescriptor[] {
  const { LISTEN_PID: pid, LISTEN_FDS: count, LISTEN_FDNAMES: names = '' } = environment
  for (const variable of ['LISTEN_PID', 'LISTEN_PIDFDID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) {
    delete environment[variable]
  }
  // They are meant for a parent process.
  if (Number(pid) !== ownPid) return []
  const fdNames = names.split(':')
  return Array.from({ length: Number(count) }, (_, index) => {
    const fd = FIRST + index
    setCloseOnExec(fd)
    return { name: fdNames[index] ?? '', fd }
  })
}
