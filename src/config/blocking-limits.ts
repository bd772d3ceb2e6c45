/** Calls that block a thread, and may hang: a part of `limits`. */
export const blockingLimits = {
  /**
   * Threads that Node has for calls that block: files, names, compression (libuv's UV_THREADPOOL_SIZE, set in the unit). What
   * may hang has places below; names have half of the threads at most (libuv, "Thread pool work scheduling"). A test
   * checks that some are left for everything else.
   */
  blockingThreads: 48,
  /** Calls on the storage pool that may run at once; one that hangs keeps its place. */
  poolCallsMax: 8,
  /** The longest that one takes on a disk that is merely busy. */
  poolCallMs: 60_000,
  /** The same for calls that wait until the disk has what was written. */
  poolFlushesMax: 4,
  poolFlushMs: 600_000,
  /** The same for the directory of local images, which may be on another file system. */
  localImageCallsMax: 4,
} as const
