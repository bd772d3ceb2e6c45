import { constants, readFile, rmdir, writeFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'
import { hasErrno } from '../ffi/errno-error.ts'

/** Returns the processes in a control group (cgroups(7)), with one cheap read; none if the group does not exist. */
export async function processesIn(group: string): Promise<readonly number[]> {
  try {
    const text = await readFile(`${group}/cgroup.procs`, 'latin1')
    return text.split('\n').filter(Boolean).map(Number)
  } catch (error) {
    if (hasErrno(error, 'ENOENT', 'ENODEV')) return []
    throw error
  }
}

/**
 * Kills everything in a control group until it is empty, and removes the group. A process that is stuck in the kernel
 * outlives SIGKILL until it returns. The wait lasts until then, or until the signal aborts.
 */
export async function endProcesses(group: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  for (let pids = await processesIn(group); pids.length > 0; pids = await processesIn(group)) {
    if (!(await killGroup(group))) for (const pid of pids) kill(pid)
    await abortable(delay(limits.leftoverRecheckMs), signal)
  }
  // systemd removes the groups of its own units. The group of a forgotten unit would stay.
  await rmdir(group).catch(() => {})
}

/** Kills the whole group at once, including new forks. Returns false if the kernel is older than 5.14. */
async function killGroup(group: string): Promise<boolean> {
  try {
    await writeFile(`${group}/cgroup.kill`, '1', { flag: constants.O_WRONLY })
    return true
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return false
    throw error
  }
}

/**
 * Kills a process. Pid 0 is a process outside of this daemon's pid namespace, and to kill(2) it would mean our own
 * group.
 */
function kill(pid: number): void {
  try {
    if (pid > 0) process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!hasErrno(error, 'ESRCH')) throw error
  }
}
