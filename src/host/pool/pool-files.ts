/**
 * Files of the storage pool, for all that this process does with it. libuv has one pool of threads a process, so there
 * is one gate a process too: a pool that hangs takes its places and no more.
 */
import { limits } from '../../config/limits.ts'
import { BoundedCalls } from './bounded-calls.ts'
import { gatedFiles } from './gated-files.ts'
import type { FileGate } from './gated-file.ts'

/** With all its places free. */
export const freePoolGate = (): FileGate => ({
  calls: new BoundedCalls({ places: limits.poolCallsMax, boundMs: limits.poolCallMs }),
  flushes: new BoundedCalls({ places: limits.poolFlushesMax, boundMs: limits.poolFlushMs }),
})

/** A test that ends a process in its midst gives the next one a free gate. */
export const poolGate = freePoolGate()

export const {
  chmod,
  chown,
  copyFile,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  removeFile,
  removeTree,
  rename,
  rmdir,
  stat,
  statfs,
  symlink,
  truncate,
  unlink,
  writeFile,
} = gatedFiles(poolGate)
