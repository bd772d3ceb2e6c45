import { completionCommand } from './completion/completion-command.ts'
import { consoleCommand } from './console/console-command.ts'
import { imageListCommand } from './image/list.ts'
import { imageRemoveCommand } from './image/remove.ts'
import { createCommand as createSnapshotCommand } from './snapshot/create.ts'
import { listCommand as listSnapshotsCommand } from './snapshot/list.ts'
import { removeCommand as removeSnapshotCommand } from './snapshot/remove.ts'
import { getCommand as getSnapshotCommand } from './snapshot/show.ts'
import { completeCommand as completeSnapshotCommand, urlsCommand } from './snapshot/urls.ts'
import { waitCommand as waitSnapshotCommand } from './snapshot/wait-command.ts'
import { syncCommand } from './sync.ts'
import { versionCommand } from './version.ts'
import { createCommand } from './vm/create.ts'
import { listCommand } from './vm/list.ts'
import { planCommand } from './vm/plan.ts'
import { pauseCommand, resumeCommand, startCommand, stopCommand } from './vm/power.ts'
import { removeCommand } from './vm/remove.ts'
import { networkCommand } from './vm/network.ts'
import { resizeCommand } from './vm/resize.ts'
import { setCommand } from './vm/set.ts'
import { getCommand } from './vm/show.ts'
import { waitCommand } from './vm/wait-command.ts'
import type { Command } from './command.ts'

/** All commands, in the order of the help. */
export const commands: readonly Command[] = [
  listCommand,
  createCommand,
  getCommand,
  startCommand,
  stopCommand,
  pauseCommand,
  resumeCommand,
  resizeCommand,
  networkCommand,
  setCommand,
  removeCommand,
  waitCommand,
  planCommand,
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
  completionCommand,
  versionCommand,
]
