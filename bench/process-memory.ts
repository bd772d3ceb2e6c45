import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { ChildProcess } from 'node:child_process'

const LOOK_EVERY_MS = 20

/** Reads the present (`VmRSS`) or the greatest (`VmHWM`) memory of a process in MiB (proc_pid_status(5)). */
export function memoryMib(pid: string, name: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
}

/** Returns the greatest memory of each child that a process has until it ends, in MiB, summed. */
export async function peakOfChildrenMib(parent: ChildProcess): Promise<number> {
  const peaks = new Map<string, number>()
  while (parent.exitCode === null && parent.signalCode === null) {
    for (const [child, mib] of childrenOf(parent.pid ?? 0)) peaks.set(child, mib)
    await delay(LOOK_EVERY_MS)
  }
  return [...peaks.values()].reduce((sum, mib) => sum + mib, 0)
}

/** Returns the children of a process and the greatest memory of each (proc_pid_task(5)). Some may have just ended. */
function childrenOf(pid: number): readonly (readonly [child: string, mib: number])[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
    return children
      .map((child) => [child, memoryMib(child, 'VmHWM')] as const)
      .filter(([, mib]) => Number.isFinite(mib))
  } catch {
    return []
  }
}
