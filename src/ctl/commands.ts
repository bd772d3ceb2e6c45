import { exitStatus } from './exit-status.ts'
import { completionCommand } from './completion/completion-command.ts'
import { consoleCommand } from './console/console-command.ts'
import { logCommand } from './console/log-command.ts'
import { eventsCommand, historyCommand } from './events/events-command.ts'
import { cordonCommand, statusCommand, uncordonCommand } from './host/cordon.ts'
import { drainCommand } from './host/drain.ts'
import { imageListCommand, imageRemoveCommand } from './image/images.ts'
import {
  createCommand as createSnapshotCommand,
  removeCommand as removeSnapshotCommand,
  completeCommand as completeSnapshotCommand,
  urlsCommand,
} from './snapshot/change.ts'
import { listCommand as listSnapshotsCommand } from './snapshot/list.ts'
import { getCommand as getSnapshotCommand } from './snapshot/show.ts'
import { waitCommand as waitSnapshotCommand } from './snapshot/wait.ts'
import { migrateCommand } from './migrate/migrate-command.ts'
import { syncCommand } from './sync.ts'
import { countersCommand } from './vm/counters.ts'
import { createCommand } from './vm/create.ts'
import { listCommand } from './vm/list.ts'
import { planCommand, getCommand } from './vm/show.ts'
import {
  keepAwakeCommand,
  pauseCommand,
  rebootCommand,
  resumeCommand,
  startCommand,
  stopCommand,
  removeCommand,
} from './vm/lifecycle.ts'
import { networkCommand, readinessCommand, resizeCommand, setCommand } from './vm/settings.ts'
import { bootCommand, rebuildCommand, seedCommand } from './vm/boot.ts'
import { exitCommand } from './vm/exit.ts'
import { waitCommand } from './vm/wait.ts'
import type { Command } from './command.ts'

const versionCommand: Command = {
  words: ['version'],
  summary: 'print version and commit of this program',
  description: 'Does not contact a daemon; "vmhostctl sync" shows the version of vmhostd.',
  options: [],
  examples: [
    ['', 'for reading'],
    ['--json | jq -r .version', 'for a program'],
  ],
  run: async ({
    shell: {
      build: { version, commit },
    },
    print,
  }) => {
    print({ version, commit }, () => `vmhostctl ${version}\ncommit ${commit}`)
    return exitStatus.done
  },
}

/** All commands, in the order of the help. */
export const commands: readonly Command[] = [
  listCommand,
  createCommand,
  getCommand,
  startCommand,
  stopCommand,
  rebootCommand,
  pauseCommand,
  resumeCommand,
  keepAwakeCommand,
  exitCommand,
  resizeCommand,
  networkCommand,
  readinessCommand,
  bootCommand,
  seedCommand,
  rebuildCommand,
  setCommand,
  migrateCommand,
  removeCommand,
  waitCommand,
  planCommand,
  historyCommand,
  countersCommand,
  logCommand,
  consoleCommand,
  listSnapshotsCommand,
  createSnapshotCommand,
  getSnapshotCommand,
  urlsCommand,
  completeSnapshotCommand,
  removeSnapshotCommand,
  waitSnapshotCommand,
  imageListCommand,
  imageRemoveCommand,
  syncCommand,
  statusCommand,
  cordonCommand,
  drainCommand,
  uncordonCommand,
  eventsCommand,
  completionCommand,
  versionCommand,
]
