import { constants, readFile, rmdir, writeFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { abortable } from '../../lib/abortable.ts'

/** The processes in a control group (cgroups(7)); none where there is no such group. One cheap read. */
export async function processesIn(group: string): Promise<readonly number[]> {
  try {
    const text = await readFile(`${group}/cgroup.procs`, 'latin1')
    return text.split('\n').filter(Boolean).map(Number)
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENODEV')) return []
    throw error
  }
}

/**
 * Kills what is in a control group until nothing is, and removes the group. A process that is stuck in the kernel
 * outlives SIGKILL for as long as it is: the wait ends with it, or with the signal's reason.
 */
export async function endProcesses(group: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  for (let pids = await processesIn(group); pids.length > 0; pids = await processesIn(group)) {
    if (!(await killGroup(group))) for (const pid of pids) kill(pid)
    await abortable(delay(limits.leftoverRecheckMs), signal)
  }
  // systemd removes the groups of its own units; one that it has forgotten would stay.
  await rmdir(group).catch(() => {})
}

/** The whole group at once, new forks included; false where the kernel is older than 5.14. */
async function killGroup(group: string): Promise<boolean> {
  try {
    await writeFile(`${group}/cgroup.kill`, '1', { flag: constants.O_WRONLY })
    return true
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return false
    throw error
  }
}

/** 0 stands for a process that this daemon's pid namespace does not show, and to kill(2) it would mean ourselves. */
function kill(pid: number): void {
  try {
    if (pid > 0) process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error
  }
}

const isErrno = (error: unknown, ...codes: string[]): boolean =>
  error instanceof Error && 'code' in error && codes.includes(String(error.code))
