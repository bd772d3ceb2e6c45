import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { readUnlessGone } from './unit-memory.ts'
import type { VmId } from '../../core/ids.ts'

/**
 * Returns the CPU time of each control group, in microseconds. A group that has ended is left out, and so is one for which
 * the kernel does not count. It reads synchronously for the same reasons as `residentIn`.
 *
 * @param groups the path of each group
 */
export async function cpuTimeIn(
  groups: Iterable<readonly [VmId, string]>,
): Promise<ReadonlyMap<VmId, number>> {
  const found = new Map<VmId, number>()
  let looks = 0
  for (const [id, group] of groups) {
    looks += 1
    if (looks % limits.residentLooksATurn === 0) await nextTurn()
    const used = parseCpuTime(readUnlessGone(`${group}/cpu.stat`) ?? '')
    if (used !== undefined) found.set(id, used)
  }
  return found
}

/** Returns `usage_usec` of a `cpu.stat` file (admin-guide/cgroup-v2, "CPU Interface Files"). */
export function parseCpuTime(stat: string): number | undefined {
  const usage = /^usage_usec (\d+)$/m.exec(stat)?.[1]
  return usage === undefined ? undefined : Number(usage)
}
