import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { saveFormOf } from '../../core/monitor/qemu-save.ts'
import type { QemuSaveForm } from '../../core/monitor/qemu-save.ts'
import { greetedVersion } from './qemu-version.ts'
import { MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'
import { migrationOf, statusOf } from './qemu-answers.ts'
import type { Migration } from './qemu-answers.ts'
import type { QmpClient } from './qmp.ts'

/**
 * The states in `query-migrate` of a save that is neither under way nor needs to be cancelled (QEMU QMP Reference
 * Manual, MigrationStatus).
 */
const OVER: ReadonlySet<unknown> = new Set([undefined, 'none', 'completed', 'failed', 'cancelled'])

/** The run state at the end of a save, in which `cont` is refused (QEMU QMP Reference Manual, RunState). */
const FINALIZING = 'finish-migrate'

/**
 * Does not use `multifd`, several threads. A monitor that restored its guest with them would also save with them, and
 * QEMU 10.0.13 sometimes crashes when such a save is cancelled. A QEMU that writes a stream does not know `mapped-ram`.
 */
const SAVE_CAPABILITIES: { readonly [F in QemuSaveForm]: readonly object[] } = {
  mapped: [
    { capability: 'events', state: true },
    { capability: 'mapped-ram', state: true },
    { capability: 'multifd', state: false },
  ],
  stream: [
    { capability: 'events', state: true },
    { capability: 'multifd', state: false },
  ],
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

const SAVE_PARAMETERS = {
  'max-bandwidth': UNBOUNDED_BYTES_PER_SECOND,
  'downtime-limit': LAST_PART_MS,
}

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
 * Saves a paused guest, as a migration to a file. A guest that does not run changes no memory, so each page is written
 * once. On abort the guest stays paused.
 */
export async function saveGuest(
  client: QmpClient,
  { path, form }: { readonly path: string; readonly form: QemuSaveForm },
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([
    client.execute('migrate-set-capabilities', { capabilities: SAVE_CAPABILITIES[form] }),
    client.execute('migrate-set-parameters', SAVE_PARAMETERS),
  ])
  signal.throwIfAborted()
  try {
    await client.execute('migrate', { uri: `file:${path}` }, signal)
    const { status, 'error-desc': why } = await untilOver(client, signal)
    if (status !== 'completed') throw new MonitorRefusal({ desc: why ?? `the save is ${String(status)}` })
    await finalized(client)
    await takeDiskBack(client)
  } catch (error) {
    // If that fails too, an inspection shows that the guest is paused in a save, and it is resumed from there.
    await giveUpSave(client).catch(ignored)
    throw error
  }
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
 * Ends a save that is under way, no matter which client began it. Afterwards the guest can be resumed. Throws
 * MonitorLost if the save does not end.
 */
export async function giveUpSave(client: QmpClient, boundMs: number = limits.qmpCommandMs): Promise<void> {
  const { status } = await migrationOf(client)
  if (!OVER.has(status)) {
    await client.execute('migrate_cancel')
    const late = new AbortController()
    const deadline = setTimeout(() => late.abort(unending()), boundMs)
    try {
      await untilOver(client, late.signal)
    } finally {
      clearTimeout(deadline)
    }
  }
  await finalized(client, boundMs)
}

const untilOver = (client: QmpClient, signal: AbortSignal): Promise<Migration> =>
  client.onceSo(async () => {
    const now = await migrationOf(client)
    return OVER.has(now.status) ? now : undefined
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

const ignored = (): void => {}
