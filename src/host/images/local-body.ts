import { constants } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { HostFault } from '../../core/errors.ts'
import { limits } from '../../config/limits.ts'
import { BoundedCalls, NoAnswer } from '../files/bounded-calls.ts'
import { gatedFiles } from '../files/gated-files.ts'
import type { GatedFile } from '../files/gated-file.ts'
import { chunksOf } from './image-body.ts'
import type { ImageBody } from './image-body.ts'
import { storageFault } from '../files/storage-fault.ts'
import { errnoOf } from '../ffi/errno-error.ts'

/**
 * The directory may be on a file system of its own, which may hang when the pool does not. All fetches share one gate
 * per process, as for the pool.
 */
const calls = new BoundedCalls({ places: limits.localImageCallsMax, boundMs: limits.poolCallMs })
const { open, readlink, realpath } = gatedFiles({ calls, flushes: calls })

/**
 * Opens an image in the local directory. Throws HostFault: `image_source_refused` if the path leads out of
 * it, `image_unavailable` if what is there is not a regular file or cannot be read.
 */
export async function openLocal(url: URL, directory: string, doing: string): Promise<ImageBody> {
  const handle = await openFile(pathOf(url, doing), doing)
  try {
    await checkInside(handle, directory, doing)
    const stats = await handle.stat()
    if (!stats.isFile())
      throw new HostFault('image_unavailable', doing, { cause: new Error('it is not a regular file') })
    return { chunks: () => chunksOf(handle), close: () => handle.close() }
  } catch (error) {
    await handle.close()
    throw storageFault(error, doing, 'image_unavailable')
  }
}

function pathOf(url: URL, doing: string): string {
  try {
    return fileURLToPath(url)
  } catch {
    throw refused(doing, 'its path is malformed')
  }
}

async function openFile(path: string, doing: string): Promise<GatedFile> {
  try {
    // Without O_NONBLOCK a FIFO would block the open until somebody writes to it (open(2)).
    return await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    if (errnoOf(error) === undefined && !(error instanceof NoAnswer))
      throw refused(doing, 'its path is malformed')
    throw storageFault(error, doing, 'image_unavailable')
  }
}

/**
 * Asks the kernel for the real path of the opened file (proc_pid_fd(5)). So neither `..` nor a symbolic link leads out
 * of the directory, even if the link changes meanwhile.
 */
async function checkInside(handle: GatedFile, directory: string, doing: string): Promise<void> {
  const [path, inside] = await Promise.all([readlink(`/proc/self/fd/${handle.fd}`), realpath(directory)])
  if (!path.startsWith(`${inside}/`)) throw refused(doing, 'it is outside of the local image directory')
}

const refused = (doing: string, why: string): HostFault =>
  new HostFault('image_source_refused', doing, { cause: new Error(why) })
