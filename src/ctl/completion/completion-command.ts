import { usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { completionScripts } from './scripts.ts'
import type { Command } from '../command.ts'
import type { CompletionShell } from './scripts.ts'

const SHELLS = Object.keys(completionScripts) as CompletionShell[]

export const completionCommand: Command = {
  words: ['completion'],
  summary: 'print the completion script of a shell: bash, zsh or fish',
  description:
    'Completes commands, options, values and the names of VMs, which it asks the daemon for. The Debian package installs ' +
    'all three.',
  operand: { placeholder: 'SHELL', completes: SHELLS },
  options: [],
  examples: [
    ['bash >/etc/bash_completion.d/vmhostctl', 'for every bash from now on'],
    ['fish | source', 'for this fish'],
  ],
  run: async ({ given, json, answer, shell: { stdout } }) => {
    const name = SHELLS.find((known) => known === given.operand)
    if (name === undefined)
      throw usageError(`there is no completion for ${given.operand}`, `there is for ${SHELLS.join(', ')}`)
    if (json) answer({ shell: name, script: completionScripts[name] })
    else stdout.write(completionScripts[name])
    return exitStatus.done
  },
}
