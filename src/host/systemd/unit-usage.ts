import { readFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { unlessErrno } from '../ffi/errno-error.ts'
import { parseProcesses } from './control-groups.ts'
import type { Resident } from '../../core/capacity/resident.ts'
import type { VmId } from '../../core/ids.ts'

/**
 * Measures the memory of the processes in each control group; a group without processes is left out. The kernel counts
 * in steps of some MiB on hosts with many CPUs (proc_pid_status(5), VmRSS). It reads synchronously, because the kernel
 * answers from memory and a dead disk may hold all threads of Node, and a few groups in each turn of the event loop.
 *
 * @param groups the path of each group
 */
export async function residentIn(
  groups: Iterable<readonly [VmId, string]>,
  proc = '/proc',
): Promise<ReadonlyMap<VmId, Resident>> {
  return measured(groups, (group) => {
    const pids = parseProcesses(readUnlessGone(`${group}/cgroup.procs`) ?? '')
    const parts = pids.flatMap((pid) => parseResident(readUnlessGone(`${proc}/${pid}/status`) ?? '') ?? [])
    return parts.length > 0 ? parts.reduce(sum) : undefined
  })
}

/** Measures a few groups in each turn of the event loop. A group without a result is left out. */
async function measured<T>(
  groups: Iterable<readonly [VmId, string]>,
  measure: (group: string) => T | undefined,
): Promise<ReadonlyMap<VmId, T>> {
  const found = new Map<VmId, T>()
  let looks = 0
  for (const [id, group] of groups) {
    looks += 1
    if (looks % limits.residentLooksATurn === 0) await nextTurn()
    const result = measure(group)
    if (result !== undefined) found.set(id, result)
  }
  return found
}

const sum = (one: Resident, other: Resident): Resident => ({
  anonymousBytes: one.anonymousBytes + other.anonymousBytes,
  fileBytes: one.fileBytes + other.fileBytes,
})

/** Returns undefined if the group or the process has ended. */
const readUnlessGone = (path: string): string | undefined =>
  unlessErrno(() => readFileSync(path, 'latin1'), 'ENOENT', 'ENODEV', 'ESRCH')

const KIB = 1024

/** Returns the memory in a file as of proc_pid_status(5); undefined if it has none, as for a process that has ended. */
export function parseResident(status: string): Resident | undefined {
  const bytes = (name: string): number | undefined => {
    const kib = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]
    return kib === undefined ? undefined : Number(kib) * KIB
  }
  const [anonymous, file, shared] = [bytes('RssAnon'), bytes('RssFile'), bytes('RssShmem')]
  if (anonymous === undefined || file === undefined || shared === undefined) return undefined
  return { anonymousBytes: anonymous + shared, fileBytes: file }
}

/**
 * Returns the CPU time of each control group, in microseconds. A group that has ended is left out, and so is one for
 * which the kernel does not count. It reads synchronously for the same reasons as `residentIn`.
 *
 * @param groups the path of each group
 */
export async function cpuTimeIn(
  groups: Iterable<readonly [VmId, string]>,
): Promise<ReadonlyMap<VmId, number>> {
  return measured(groups, (group) => parseCpuTime(readUnlessGone(`${group}/cpu.stat`) ?? ''))
}

/** Returns `usage_usec` of a `cpu.stat` file (admin-guide/cgroup-v2, "CPU Interface Files"). */
export function parseCpuTime(stat: string): number | undefined {
  const usage = /^usage_usec (\d+)$/m.exec(stat)?.[1]
  return usage === undefined ? undefined : Number(usage)
}
