import { UNIT_PATTERN } from '../../src/core/unit/unit-spec.ts'
import { call, closeController, remove } from './controller.ts'
import { ready, sh } from './shell.ts'
import { deleteSnapshot } from './snapshots.ts'

/**
 * Deletes every snapshot and VM of the installed daemon, ends the units of guests that it has no record of, starts the
 * daemon first if a test left it stopped, and closes the connection.
 * What a failed test left must not fail the next one.
 */
export async function leaveHost(): Promise<void> {
  try {
    await sh('systemctl', 'reset-failed', 'vmhostd').catch(() => '')
    await sh('systemctl', 'start', 'vmhostd')
    await ready()
    for (const id of await idsOf('/v1/snapshots')) await deleteSnapshot(id)
    for (const id of await idsOf('/v1/vms')) await remove(id)
    await sh('systemctl', 'stop', UNIT_PATTERN)
    // A unit whose last process was killed stays as failed.
    await sh('systemctl', 'reset-failed', UNIT_PATTERN)
  } finally {
    closeController()
  }
}

async function idsOf(path: string): Promise<readonly string[]> {
  const { body } = await call('GET', path)
  const { items } = body as unknown as { readonly items: readonly { readonly id: string }[] }
  return items.map(({ id }) => id)
}
