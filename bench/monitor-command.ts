import { readFileSync } from 'node:fs'

/** Returns the command line of a process as it runs (proc_pid_cmdline(5)). */
export const commandOf = (pid: string): readonly string[] =>
  readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1)
