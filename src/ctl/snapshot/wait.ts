import { watchSnapshot } from '../../client/watch.ts'
import { limits } from '../../config/limits.ts'
import { CtlError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import { showMib } from '../../lib/shown-units.ts'
import { printable } from '../../lib/text.ts'
import { boundOptions, waitFor, waitOptions } from '../wait.ts'
import {
  progressWriter,
  doneWords,
  errorWords,
  lackingWords,
  phaseWords,
  urlsAdvice,
} from './snapshot-words.ts'
import { eachNamed } from '../several.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Snapshot } from '../../client/api-client.ts'
import type { Context, Command } from '../command.ts'
import type { Note } from '../wait.ts'

/** Options of the command that only waits. */
const waitOnlyOptions = boundOptions(limits.ctlSnapshotWaitSecondsDefault)

/** Options of commands that let a snapshot go on. */
export const WAIT_OPTIONS = waitOptions('until it is completed, and show the progress', waitOnlyOptions)

/**
 * Waits until a snapshot is completed. Throws CtlError with status 3 after the timeout, and with status 1 if it failed
 * or is deleted. If the caller asked for that, throws with status 1 on errors or missing URLs too.
 */
async function waitForSnapshot(context: Context, id: string, beganMs?: number): Promise<Snapshot> {
  const { shell, given } = context
  const snapshot = await waitFor<Snapshot>(context, {
    id,
    watch: watchSnapshot,
    beganMs,
    defaultSeconds: limits.ctlSnapshotWaitSecondsDefault,
    words: progressWriter(shell),
    notes: (seen) => notesOn(seen, shell.nowMs()),
    isOver: (seen) => {
      refuseFailure(seen)
      if (given.isSet('fail-on-error')) refuseTrouble(seen)
      return seen.status === 'completed'
    },
    missed: 'is not completed',
    standing: (seen) => ({ words: `${phaseWords(seen)}, ${doneWords(seen)}`, advice: whyNot(seen) }),
    onwards: `the daemon continues: vmhostctl snapshot wait ${id} waits again`,
  })
  if (snapshot !== undefined) return snapshot
  throw new CtlError(`${id} was deleted before it was completed`, {
    code: 'gone',
    status: exitStatus.failed,
  })
}

/** Notes errors, and missing URLs once each time they begin to be missing. */
function notesOn(seen: Snapshot, nowMs: number): readonly Note[] {
  const lacking = lackingWords(seen)
  const text = seen.status === 'failed' ? undefined : errorWords(seen, nowMs)
  return [
    ...(seen.error === undefined || text === undefined ? [] : [{ about: 'error', news: seen.error, text }]),
    lacking === undefined
      ? { about: 'urls', news: '' }
      : {
          about: 'urls',
          news: seen.progress.phase === 'awaiting_completion' ? 'end' : 'parts',
          text: `it needs URLs ${lacking}; ${urlsAdvice(seen)}`,
        },
  ]
}

function whyNot(seen: Snapshot): readonly string[] {
  const lacking = lackingWords(seen)
  return [
    ...(seen.waiting_for === undefined ? [] : [`it waits for ${seen.waiting_for}`]),
    ...(seen.error === undefined ? [] : [`the reason: ${seen.error}`]),
    ...(lacking === undefined ? [] : [`it needs URLs ${lacking}; ${urlsAdvice(seen)}`]),
  ]
}

function refuseFailure({ id, status, error, fault, resumable }: Snapshot): void {
  if (status !== 'failed') return
  throw new CtlError(`${id} has failed${error === undefined ? '' : `: ${error}`}`, {
    code: fault?.code ?? 'failed',
    status: exitStatus.failed,
    advice:
      resumable === true
        ? [`fresh URLs let it continue where it was: vmhostctl snapshot urls ${id} --upload FILE`]
        : [
            ...(fault?.code === 'storage_full' ? [FREE_ROOM] : []),
            `it cannot continue: vmhostctl snapshot rm ${id}, then take another one`,
          ],
  })
}

const FREE_ROOM = 'free room in the pool first: vmhostctl sync shows how much it has'

function refuseTrouble(seen: Snapshot): void {
  const { id, error, fault } = seen
  const lacking = lackingWords(seen)
  if (error === undefined && lacking === undefined) return
  throw new CtlError(`${id}: ${error ?? `it needs URLs ${lacking}`}`, {
    code: fault?.code ?? 'needs_urls',
    status: exitStatus.failed,
    advice: lacking === undefined ? ['the daemon keeps trying'] : [urlsAdvice(seen)],
  })
}

/** Waits until a snapshot is completed, and shows it with the parameters that create a VM from its image. */
export async function seeThrough(context: Context, id: string, beganMs?: number): Promise<ExitStatus> {
  const snapshot = await waitForSnapshot(context, id, beganMs)
  const { size_mib: size = 0, stored_size_mib: stored = 0, sha256 } = snapshot
  context.print(snapshot, () =>
    printable(`${id}: completed, ${showMib(size)} stored as ${showMib(stored)}, sha256 ${sha256}`),
  )
  return exitStatus.done
}

export const waitCommand: Command = {
  words: ['snapshot', 'wait'],
  summary: 'wait until snapshots are completed, and show the progress',
  description:
    'Ends with status 1 if a snapshot has failed. Errors that may pass and missing URLs are shown, and the wait continues; ' +
    'with --fail-on-error it ends.',
  operand: { placeholder: 'ID', many: true, completes: 'snapshot' },
  options: waitOnlyOptions,
  examples: [
    ['nightly-1', 'until the object is in the store, a day at most'],
    ['nightly-1 --timeout 0', 'whether it is completed now: status 0 or 3'],
    ['nightly-1 --fail-on-error --json', 'in a program: status 1 as soon as it needs something'],
  ],
  run: (context) => eachNamed(context, (id, beganMs) => seeThrough(context, id, beganMs)),
}
