import { CONFIG_OPTION, DONE_OR_FAILED } from './shared-help.ts'
import type { CommandHelp } from './command-help.ts'

export const planHelp = {
  name: 'plan',
  operand: 'VM',
  summary: 'print what the running daemon would do next for a VM, and why',
  usage: 'VM [--config FILE]',
  description: [
    'Prints what the running daemon would do next for a VM, step by step with the reasons. Changes nothing.',
  ],
  options: [CONFIG_OPTION],
  exits: DONE_OR_FAILED,
} as const satisfies CommandHelp

export const consoleHelp = {
  name: 'console',
  operand: 'VM',
  summary: "print the newest output of a VM's serial console",
  usage: 'VM [--raw] [--config FILE]',
  description: [
    "Prints the newest output of a VM's serial console, as far as the daemon keeps it. Escape sequences and control " +
      'characters are left out, since a guest could steer your terminal with them.',
  ],
  options: [['--raw', 'print every byte'], CONFIG_OPTION],
  exits: DONE_OR_FAILED,
} as const satisfies CommandHelp

export const versionHelp: CommandHelp = {
  name: 'version',
  summary: "print version, commit, Node, and whether this build can use systemd's descriptor store",
  usage: '',
  description: [
    "Prints version and commit of this program, its Node, and whether this build can use systemd's descriptor store, which keeps " +
      'consoles while the daemon restarts.',
  ],
  options: [],
  exits: [
    [0, 'it can'],
    [1, 'it cannot'],
    [2, 'wrong usage'],
  ],
}
