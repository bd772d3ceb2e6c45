import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../config/limits.ts'
import { QmpLost, QmpRefusal } from './qmp-error.ts'
import type { QmpClient } from './qmp.ts'

export type SaveOrder = { readonly path: string; readonly mappedRam: boolean }

/** Of `query-migrate`, a save that is neither under way nor to be given up (QEMU QMP Reference Manual, MigrationStatus). */
const OVER: ReadonlySet<unknown> = new Set([undefined, 'none', 'completed', 'failed', 'cancelled'])

/** No bound of its own: the disk is the bound. Far above any, and below what QEMU can count. */
const UNBOUNDED_BYTES_PER_SECOND = 2 ** 40

/**
 * Saves a guest that stands still, as a migration to a file: a guest that does not run dirties nothing, so each page is
 * written once. On abort the guest stands still as before.
 */
export async function saveGuest(client: QmpClient, order: SaveOrder, signal: AbortSignal): Promise<void> {
  const capabilities = { events: true, 'mapped-ram': order.mappedRam }
  await Promise.all([
    client.execute('migrate-set-capabilities', {
      capabilities: Object.entries(capabilities).map(capability),
    }),
    client.execute('migrate-set-parameters', { 'max-bandwidth': UNBOUNDED_BYTES_PER_SECOND }),
  ])
  signal.throwIfAborted()
  try {
    await client.execute('migrate', { uri: `file:${order.path}` }, signal)
    const { status, 'error-desc': why } = await untilOver(client, signal)
    if (status !== 'completed') throw new QmpRefusal({ desc: why ?? `the save is ${String(status)}` })
    await finalized(client)
  } catch (error) {
    // Where that fails too, the guest is seen to stand still in a save, and is told to go on from there.
    await giveUpSave(client).catch(ignored)
    throw error
  }
}

const capability = ([name, state]: [string, boolean]): object => ({ capability: name, state })

/** Ends a save that is under way, whoever began it; afterwards the guest can be told to go on. */
export async function giveUpSave(client: QmpClient): Promise<void> {
  const { status } = await migration(client)
  if (!OVER.has(status)) {
    await client.execute('migrate_cancel')
    await untilOver(client, AbortSignal.timeout(limits.qmpCommandMs))
  }
  await finalized(client)
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
async function finalized(client: QmpClient): Promise<void> {
  const until = performance.now() + limits.qmpCommandMs
  while (performance.now() < until) {
    const { status } = (await client.execute('query-status')) as { status?: unknown }
    if (status !== 'finish-migrate') return
    await delay(1)
  }
  throw new QmpLost('a save that does not end')
}

const ignored = (): void => {}
