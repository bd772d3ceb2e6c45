import { run } from '../exec/exec.ts'

/**
 * Deletes a link if it is ours. A program does it, because the kernel waits for packets in flight, which takes tens of
 * milliseconds. Throws ExitError, and HostFault from `run`, unless the link is gone or not ours any more.
 */
export async function deleteLink(name: string, isOurs: () => boolean): Promise<void> {
  if (!isOurs()) return
  await run(['ip', 'link', 'del', 'dev', name]).catch((error: unknown) => {
    if (isOurs()) throw error
  })
}
