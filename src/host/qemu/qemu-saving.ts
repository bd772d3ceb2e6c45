import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { saveFormOf } from '../../core/monitor/qemu-save.ts'
import type { QemuSaveForm } from '../../core/monitor/qemu-save.ts'
import { greetedVersion } from './qemu-version.ts'
import { MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'
import { untilThreadsSleep } from './monitor-threads.ts'
import { canPauseAtEnd, migrationOf, statusOf } from './qemu-answers.ts'
import type { Migration } from './qemu-answers.ts'
import type { QmpClient } from './qmp.ts'

/**
 * The states in `query-migrate` of a save that is neither under way nor needs to be cancelled (QEMU QMP Reference
 * Manual, MigrationStatus).
 */
const OVER: ReadonlySet<unknown> = new Set([undefined, 'none', 'completed', 'failed', 'cancelled'])

/** The run state at the end of a save, in which `cont` is refused (QEMU QMP Reference Manual, RunState). */
const FINALIZING = 'finish-migrate'

/** The state of a save whose memory is written, and which waits (QEMU QMP Reference Manual, MigrationStatus). */
const BEFORE_ITS_END = 'pre-switchover'

/**
 * The run state after a save (QEMU QMP Reference Manual, RunState). QEMU saves the guest again only if it runs before.
 */
const SAVED = 'postmigrate'

/**
 * Memory in the mapped form is written by a thread that has nothing else to do (`multifd`), in pieces of 512 KiB.
 * Without it QEMU writes each page of 4 KiB by a call of its own, which takes four times as long. Such a save waits
 * before its end, because it can be cancelled safely only there ({@link endSave}). A QEMU that writes a stream does not
 * know `mapped-ram`.
 */
const SAVE_CAPABILITIES: { readonly [F in QemuSaveForm]: readonly object[] } = {
  mapped: capabilities({ 'mapped-ram': true, multifd: true, 'pause-before-switchover': true }),
  stream: capabilities({ multifd: false, 'pause-before-switchover': false }),
}

/**
 * No limit of our own, because the disk limits the speed. This number is far above any disk's, and below QEMU's
 * maximum.
 */
const UNBOUNDED_BYTES_PER_SECOND = 2 ** 40

/**
 * QEMU writes the last part of memory under its main lock, and hears no command meanwhile, also not one that gives the
 * save up. This part is what it believes to write within the downtime limit, 300 ms by default (QEMU QMP Reference
 * Manual, MigrationParameters). A paused guest dirties no memory, so nothing needs to be left for the end.
 */
const LAST_PART_MS = 0

const STREAM_PARAMETERS = {
  'max-bandwidth': UNBOUNDED_BYTES_PER_SECOND,
  'downtime-limit': LAST_PART_MS,
}

/** One thread looks for pages of zeros, and another one writes; more are not faster on two cores. */
const SAVE_PARAMETERS: { readonly [F in QemuSaveForm]: object } = {
  mapped: {
    ...STREAM_PARAMETERS,
    'multifd-channels': 1,
    // By the thread that gives the pages, and not by the one that writes them.
    'zero-page-detection': 'legacy',
    // With it, QEMU believes that all of memory is written within any downtime limit above 0.
    'avail-switchover-bandwidth': UNBOUNDED_BYTES_PER_SECOND,
  },
  stream: STREAM_PARAMETERS,
}

/**
 * Makes QEMU stop writing memory, and go to {@link BEFORE_ITS_END}. It looks at the limit ten times a second. The
 * number is its largest downtime limit in ms (QEMU, migration/options.c, MAX_MIGRATE_DOWNTIME).
 */
const WRITE_NO_MORE = { 'downtime-limit': 2_000_000 }

/**
 * Returns the version of a monitor that can save its guest in a form that today's monitor can read. Throws
 * MonitorRefusal: guests run on through upgrades, so a guest's program or devices may be older than those that are
 * started now.
 */
export async function checkSavable(client: QmpClient, signal: AbortSignal): Promise<string> {
  const version = greetedVersion(client.greeting)
  if (version === undefined) throw new MonitorRefusal({ desc: 'the monitor does not report its version' })
  if (saveFormOf(version) === undefined)
    throw tooOld(`by QEMU ${version}, and 8.2 is the first that saves guests`)
  try {
    // vmhostd added the balloon together with saving, and with the directory that the unit may write to.
    await client.execute('query-balloon', undefined, signal)
  } catch (error) {
    if (!(error instanceof MonitorRefusal)) throw error
    throw tooOld('by a version of vmhostd that could not save guests')
  }
  return version
}

const tooOld = (by: string): MonitorRefusal =>
  new MonitorRefusal({ desc: `the guest was started ${by}; stop the VM and start it, once` })

/**
 * Makes a guest that was saved before, and has not run since, one that can be saved: only `cont` ends that run state.
 * Both commands are sent at once, so the guest runs for no more than a moment. Throws MonitorRefusal if it may not run.
 */
export async function leaveFormerSave(
  client: QmpClient,
  mayRun: boolean,
  signal: AbortSignal,
): Promise<void> {
  if ((await statusOf(client, signal)) !== SAVED) return
  if (!mayRun) {
    const desc = 'it was saved before, and QEMU saves a guest again only after it has run'
    throw new MonitorRefusal({ desc: `${desc}; resume the VM and pause it, once` })
  }
  await Promise.all([client.execute('cont', undefined, signal), client.execute('stop', undefined, signal)])
}

/**
 * Saves a paused guest, as a migration to a file. A guest that does not run changes no memory, so each page is written
 * once. On abort the guest stays paused and the save is under way, until {@link endSave}.
 */
export async function saveGuest(
  client: QmpClient,
  { path, form }: { readonly path: string; readonly form: QemuSaveForm },
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([
    client.execute('migrate-set-capabilities', { capabilities: SAVE_CAPABILITIES[form] }),
    client.execute('migrate-set-parameters', SAVE_PARAMETERS[form]),
  ])
  signal.throwIfAborted()
  await client.execute('migrate', { uri: `file:${path}` }, signal)
  if ((await untilWritten(client, signal)).status === BEFORE_ITS_END)
    await client.execute('migrate-continue', { state: BEFORE_ITS_END }, signal)
  const { status, 'error-desc': why } = await untilOver(client, signal)
  if (status !== 'completed') throw new MonitorRefusal({ desc: why ?? `the save is ${String(status)}` })
  await finalized(client)
  await takeDiskBack(client)
}

/**
 * Makes QEMU take its disk back. At the end of a save QEMU releases the disk, and it reads from the disk to take it
 * back. If that were left to `cont`, the read would wait for the flush of the saved memory, and resuming would take a
 * tenth of a second longer. The same holds from a restore until the guest runs: until then QEMU refuses to resize the
 * disk (`Permission 'resize' unavailable on inactive node`). It is safe, because the guest is paused, and no other
 * monitor gets the disk before the unit of this one has ended.
 */
export async function takeDiskBack(client: QmpClient): Promise<void> {
  try {
    await client.execute('blockdev-set-active', { active: true })
  } catch (error) {
    // The command was added in QEMU 10.0. In older versions `cont` takes the disk back, and a restored guest has it
    // from the start.
    if (!(error instanceof MonitorRefusal)) throw error
  }
}

/** Returns whether a save must end before the guest can be resumed. The run state is of a moment after the save's. */
export const isUnderWay = ({ status }: Migration, runState: string): boolean =>
  !OVER.has(status) || runState === FINALIZING

/**
 * Lets a guest run whose save is under way, before the save has ended; returns whether it runs. {@link endSave} must
 * follow, during which the guest is stopped for a moment. A save in its last step is not left: the guest runs only
 * after it.
 */
export async function resumeFromSave(client: QmpClient): Promise<boolean> {
  if (!(await canPauseAtEnd(client))) return false
  try {
    // Both at once. If the daemon is killed then, the save waits before its end, and the next daemon finds it.
    await Promise.all([client.execute('migrate-set-parameters', WRITE_NO_MORE), client.execute('cont')])
    return true
  } catch (error) {
    if (error instanceof MonitorRefusal) return false
    throw error
  }
}

/**
 * Ends a save that is under way, no matter which client began it. Afterwards the guest runs if it did, and can be
 * resumed if it did not. Throws MonitorLost if the save does not end.
 *
 * QEMU 10.0.13 frees what the writing thread uses before that thread has ended, and crashes if the thread is at work at
 * that moment (migration/migration.c, migration_cleanup). So the save is cancelled where it waits before its end: then
 * nothing gives that thread more work, and once it sleeps, it has none.
 */
export async function endSave(client: QmpClient, boundMs: number = limits.qmpCommandMs): Promise<void> {
  const { status } = await migrationOf(client)
  if (!OVER.has(status)) {
    const late = new AbortController()
    const deadline = setTimeout(() => late.abort(unending()), boundMs)
    try {
      if (await canPauseAtEnd(client)) await untilAtRest(client, late.signal)
      await client.execute('migrate_cancel')
      await untilOver(client, late.signal)
    } finally {
      clearTimeout(deadline)
    }
  }
  await finalized(client, boundMs)
}

async function untilAtRest(client: QmpClient, signal: AbortSignal): Promise<void> {
  await client.execute('migrate-set-parameters', WRITE_NO_MORE)
  if ((await untilWritten(client, signal)).status === BEFORE_ITS_END) await untilThreadsSleep(client, signal)
}

const untilOver = (client: QmpClient, signal: AbortSignal): Promise<Migration> =>
  untilStatus(client, (status) => OVER.has(status), signal)

/** Waits until a save waits before its end; or until it is over, because it failed or does not wait. */
const untilWritten = (client: QmpClient, signal: AbortSignal): Promise<Migration> =>
  untilStatus(client, (status) => status === BEFORE_ITS_END || OVER.has(status), signal)

const untilStatus = (
  client: QmpClient,
  isIt: (status: unknown) => boolean,
  signal: AbortSignal,
): Promise<Migration> =>
  client.onceSo(async () => {
    const now = await migrationOf(client)
    return isIt(now.status) ? now : undefined
  }, signal)

/**
 * Waits until a save has ended. Its completion event comes a moment before that, no event marks the end, and `cont` is
 * refused in between.
 */
async function finalized(client: QmpClient, boundMs: number = limits.qmpCommandMs): Promise<void> {
  const until = performance.now() + boundMs
  while (performance.now() < until) {
    if ((await statusOf(client)) !== FINALIZING) return
    await delay(1)
  }
  throw unending()
}

const unending = (): MonitorLost => new MonitorLost('a save that does not end')

/** Returns a list for `migrate-set-capabilities`; with events, which report each change of a save's state. */
function capabilities(states: Readonly<Record<string, boolean>>): readonly object[] {
  return Object.entries({ events: true, ...states }).map(([capability, state]) => ({ capability, state }))
}
