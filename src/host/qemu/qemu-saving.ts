import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { saveFormOf } from '../../core/unit/qemu-save.ts'
import type { SaveForm } from '../../core/storage/saved-state.ts'
import { greetedVersion } from './qemu-version.ts'
import { QmpLost, QmpRefusal } from './qmp-error.ts'
import type { QmpClient } from './qmp.ts'

/** Of `query-migrate`, a save that is neither under way nor to be given up (QEMU QMP Reference Manual, MigrationStatus). */
const OVER: ReadonlySet<unknown> = new Set([undefined, 'none', 'completed', 'failed', 'cancelled'])

/**
 * Not by several threads, which a monitor that restored its guest would take for this too: QEMU 10.0.13 now and then dies
 * when such a save is given up. A QEMU that writes a stream does not know `mapped-ram`.
 */
const SAVE_CAPABILITIES: { readonly [F in SaveForm]: readonly object[] } = {
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

/** No bound of its own: the disk is the bound. Far above any, and below what QEMU can count. */
const UNBOUNDED_BYTES_PER_SECOND = 2 ** 40

/**
 * The version of a monitor that can save its guest so that a monitor of today can read it. Throws QmpRefusal: guests run on
 * through upgrades, so its program or its devices may be older than those that are started now.
 */
export async function checkSavable(client: QmpClient, signal: AbortSignal): Promise<string> {
  const version = greetedVersion(client.greeting)
  if (version === undefined) throw new QmpRefusal({ desc: 'the monitor does not tell its version' })
  if (saveFormOf(version) === undefined)
    throw tooOld(`by QEMU ${version}, and 8.2 is the first that saves guests`)
  try {
    // It came with saving, as did the directory that the unit may write to.
    await client.execute('query-balloon', undefined, signal)
  } catch (error) {
    if (!(error instanceof QmpRefusal)) throw error
    throw tooOld('by a version of vmhostd that could not save guests')
  }
  return version
}

const tooOld = (by: string): QmpRefusal =>
  new QmpRefusal({ desc: `the guest was started ${by}; stop the VM and start it, once` })

/**
 * Saves a guest that stands still, as a migration to a file: a guest that does not run dirties nothing, so each page is
 * written once. On abort the guest stands still as before.
 */
export async function saveGuest(
  client: QmpClient,
  { path, form }: { readonly path: string; readonly form: SaveForm },
  signal: AbortSignal,
): Promise<void> {
  await Promise.all([
    client.execute('migrate-set-capabilities', { capabilities: SAVE_CAPABILITIES[form] }),
    client.execute('migrate-set-parameters', { 'max-bandwidth': UNBOUNDED_BYTES_PER_SECOND }),
  ])
  signal.throwIfAborted()
  try {
    await client.execute('migrate', { uri: `file:${path}` }, signal)
    const { status, 'error-desc': why } = await untilOver(client, signal)
    if (status !== 'completed') throw new QmpRefusal({ desc: why ?? `the save is ${String(status)}` })
    await finalized(client)
    await takeDiskBack(client)
  } catch (error) {
    // Where that fails too, the guest is seen to stand still in a save, and is told to go on from there.
    await giveUpSave(client).catch(ignored)
    throw error
  }
}

/**
 * Has QEMU take its disk. At the end of a save QEMU lets go of the disk, and to take it back it reads from it. Left to
 * `cont`, that read waits behind the flush of all that was saved: a tenth of a second for a guest that is told to go on. The
 * same holds from a restore until the guest runs: until then a resize of the disk is refused (`Permission 'resize'
 * unavailable on inactive node`). The guest stands still, and no other monitor is given the disk before the unit of this
 * one has ended.
 */
export async function takeDiskBack(client: QmpClient): Promise<void> {
  try {
    await client.execute('blockdev-set-active', { active: true })
  } catch (error) {
    // It came with QEMU 10.0. Before, `cont` takes the disk back, and a restored guest has it from the start.
    if (!(error instanceof QmpRefusal)) throw error
  }
}

/**
 * Ends a save that is under way, whoever began it; afterwards the guest can be told to go on. Throws QmpLost where it does
 * not end.
 */
export async function giveUpSave(client: QmpClient, boundMs: number = limits.qmpCommandMs): Promise<void> {
  const { status } = await migration(client)
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

type Migration = { readonly status?: unknown; readonly 'error-desc'?: unknown }

const migration = async (client: QmpClient): Promise<Migration> =>
  (await client.execute('query-migrate')) as Migration

const untilOver = (client: QmpClient, signal: AbortSignal): Promise<Migration> =>
  client.onceSo(async () => {
    const now = await migration(client)
    return OVER.has(now.status) ? now : undefined
  }, signal)

/** The event that a save is complete comes a moment before its end, and nothing tells of that; `cont` is refused between. */
async function finalized(client: QmpClient, boundMs: number = limits.qmpCommandMs): Promise<void> {
  const until = performance.now() + boundMs
  while (performance.now() < until) {
    const { status } = (await client.execute('query-status')) as { status?: unknown }
    if (status !== 'finish-migrate') return
    await delay(1)
  }
  throw unending()
}

const unending = (): QmpLost => new QmpLost('a save that does not end')

const ignored = (): void => {}
