import { readFileSync } from 'node:fs'

/** Reads the present (`VmRSS`) or the greatest (`VmHWM`) memory of a process in MiB (proc_pid_status(5)). */
export function memoryMib(pid: string, name: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
}
