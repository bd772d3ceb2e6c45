/** Flushes files, in a thread of its own. It is a bundle of its own too, so keep its imports minimal. */
import { fdatasyncSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import type { FlushAnswer } from './file-flusher.ts'

/** Flushes one open file (fdatasync(2)); a number other than 0 is the errno of the call. */
function flush(fd: number): FlushAnswer {
  try {
    fdatasyncSync(fd)
    return { errno: 0 }
  } catch (error) {
    const { errno } = error as NodeJS.ErrnoException
    if (errno === undefined) throw error
    return { errno: -errno }
  }
}

parentPort?.on('message', (fd: number) => parentPort?.postMessage(flush(fd), []))
