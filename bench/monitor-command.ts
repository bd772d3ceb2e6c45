import { readFileSync } from 'node:fs'

/** Returns the command line of a process as it runs (proc_pid_cmdline(5)). `root` is the root of its host. */
export const commandOf = (pid: string, root = ''): readonly string[] =>
  readFileSync(`${root}/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1)
