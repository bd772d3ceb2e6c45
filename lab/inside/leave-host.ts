import { call, closeController, remove } from './controller.ts'
import { ready, sh } from './shell.ts'

/**
 * Deletes every VM of the installed daemon, starts the daemon first if a test left it stopped, and closes the
 * connection. For `after` in a test file: what a failed test left must not fail the next file.
 */
export async function leaveHost(): Promise<void> {
  try {
    await sh('systemctl', 'reset-failed', 'vmhostd').catch(() => '')
    await sh('systemctl', 'start', 'vmhostd')
    await ready()
    const { body } = await call('GET', '/v1/vms')
    const { items } = body as unknown as { readonly items: readonly { readonly id: string }[] }
    for (const { id } of items) await remove(id)
  } finally {
    closeController()
  }
}
