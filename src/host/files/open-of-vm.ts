import { constants } from 'node:fs'
import { open } from './pool-files.ts'
import type { GatedFile } from './gated-file.ts'

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/**
 * Opens a file that belongs to a VM's user, such as its disk. Never waits for the VM's monitor: without O_NONBLOCK an
 * open waits up to 45 s for a lease that the monitor holds, and without end for a writer to a FIFO (open(2), fcntl(2)).
 * Fails with EAGAIN if there is a lease. While the file is open, nothing can take a lease for which an open to read
 * would wait.
 */
export const openOfVm = (path: string, access: number = O_RDONLY): Promise<GatedFile> =>
  open(path, access | O_NOFOLLOW | O_NONBLOCK)
