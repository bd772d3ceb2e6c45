/** Calls that block a thread, and may hang: a part of `limits`. */
export const blockingLimits = {
  /**
   * Threads that Node has for blocking calls: files, names, compression (libuv's UV_THREADPOOL_SIZE, set in the unit).
   * Calls that may hang have places below. Name look-ups have at most half of the threads (libuv, "Thread pool work
   * scheduling"). A test checks that some threads are left for everything else.
   */
  blockingThreads: 48,
  /** Calls on the storage pool that may run at once; one that hangs keeps its place. */
  poolCallsMax: 8,
  /** The longest that one such call takes on a disk that is merely busy. */
  poolCallMs: 60_000,
  /** Calls that wait until the disk has what was written, at once; one that hangs keeps its place. */
  poolFlushesMax: 4,
  poolFlushMs: 600_000,
  /** Calls on the directory of local images at once; it may be on another file system. */
  localImageCallsMax: 4,
} as const
