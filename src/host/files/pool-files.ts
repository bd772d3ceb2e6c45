/**
 * File functions for everything that this process does with the storage pool. libuv has one thread pool per process, so
 * there is one gate per process too: a pool that hangs takes the places of that gate, and no other threads.
 */
import { limits } from '../../config/limits.ts'
import { BoundedCalls } from './bounded-calls.ts'
import { gatedFiles } from './gated-files.ts'
import type { FileGate } from './gated-file.ts'

/** Makes a gate whose places are all free. */
export const freePoolGate = (): FileGate => ({
  calls: new BoundedCalls({ places: limits.poolCallsMax, boundMs: limits.poolCallMs }),
  flushes: new BoundedCalls({ places: limits.poolFlushesMax, boundMs: limits.poolFlushMs }),
})

/** The pool's gate. A test that ends a process in the middle gives the next one a free gate. */
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
  renameIf,
  rmdir,
  stat,
  statfs,
  symlink,
  truncate,
  unlink,
  writeFile,
} = gatedFiles(poolGate)
