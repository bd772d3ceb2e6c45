import { exitStatus } from './exit-status.ts'
import type { Command } from './command.ts'

export const versionCommand: Command = {
  words: ['version'],
  summary: 'print version and commit of this program',
  description: 'Asks no daemon; "vmhostctl sync" shows the version of one.',
  options: [],
  examples: [
    ['', 'for reading'],
    ['--json | jq -r .version', 'for a program'],
  ],
  run: async ({ shell: { build }, json, answer, say }) => {
    if (json) answer({ version: build.version, commit: build.commit })
    else say(`vmhostctl ${build.version}\ncommit ${build.commit}`)
    return exitStatus.done
  },
}
