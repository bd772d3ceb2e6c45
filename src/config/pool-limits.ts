/** Bounds of the storage pool: its images and disks, and calls on it that may hang; a part of `limits`. */
export const poolLimits = {
  /** Images and clones. */
  imageBytesMax: 1024 * 1024 * 1024 * 1024,
  /** A kernel or an initrd. The largest that distributions ship have some hundred MiB. */
  bootImageBytesMax: 4 * 1024 * 1024 * 1024,
  /**
   * Compressed content may be slightly longer than its uncompressed form: by this much, plus a 256th
   * (ZSTD_compressBound of zstd.h).
   */
  packedExcessBytes: 1024 * 1024,
  /** The pool's free space is checked after each step of this size while an image is stored. */
  imageRoomStepBytes: 8 * 1024 * 1024,
  /**
   * An image that was too large, or twice not what its digest says, is not fetched again from the same URL for this
   * long, and one that the pool had no room for not without more room.
   */
  imageRefusedMs: 3_600_000,
  /** Images whose refusal is remembered, and as many whose lack of room is. */
  imagesRefusedMax: 1000,
  /** Images whose kind is remembered. */
  imageLooksMax: 10_000,
  /** A source that sends nothing for this long has stalled. */
  imageStallMs: 30_000,
  imageRedirectsMax: 5,
  /** Enough downloads to fill a link; more would only share it. */
  imageFetchesMax: 4,
  /** After this time without a place for any fetch, a source gets one of another source that has several. */
  imagePlaceWaitMs: 60_000,
  /** A reflink takes milliseconds. On a file system without reflinks, copies would compete for the disk. */
  diskClonesMax: 4,

  /**
   * A source that sends less in this time is too slow: one byte every 29 s would keep other images from being fetched.
   */
  fetchPaceBytesMin: 64 * 1024,
  fetchPaceMs: 60_000,
  /**
   * A fetch that brought as much in each second of the last `imageFetchMs` has that time once more. At less, an image
   * of some GiB is taken, and a larger one ends.
   */
  fetchBytesPerSecondMin: 1024 * 1024,
  /**
   * Attempts to resume an image whose source broke off or is too slow. Each `fetchPaceBytesMin` that arrives resets the
   * count.
   */
  imageResumesMax: 8,
  /** Bytes of a saved guest that are written to the disk at once; then another save may run, or this one ends. */
  saveFlushBytes: 32 * 1024 * 1024,
  /**
   * Between two flushes of what a monitor wrote, while it still saves. They end after one that takes longer than this.
   */
  saveFlushPauseMs: 5,
  saveFlushMsMax: 150,
  /** Such writes and flushes running at once, over all saves. Each occupies one of Node's four threads for files. */
  saveFlushesMax: 2,
  /** Time between two searches for unused images. */
  imageSweepMs: 600_000,
  imageIdleHoursMax: 24 * 365,
  /** A daemon watches an unused image for so long before it removes it by its age: the clock may be corrected. */
  imageHoldMs: 600_000,
  /** VMs that the refusal to remove their image names. */
  imageUsersNamedMax: 3,

  /**
   * Threads that Node has for blocking calls: files, names, compression (libuv's UV_THREADPOOL_SIZE, set in the unit).
   * Calls that may hang have places below. Name look-ups have at most half of the threads (libuv, "Thread pool work
   * scheduling"). A test checks that some threads are left for everything else.
   */
  blockingThreads: 48,
  /** Time between two searches for what removals and failed work in the pool have left. */
  poolSweepMs: 600_000,
  /** A file in the making that was not written for this long is left of failed work: no step takes as long. */
  poolUnfinishedMs: 25 * 3_600_000,
  /** Calls on the storage pool that may run at once; one that hangs keeps its place. */
  poolCallsMax: 8,
  /** The longest that one such call takes on a disk that is merely busy. */
  poolCallMs: 60_000,
  /** Calls that wait until the disk has what was written, at once; one that hangs keeps its place. */
  poolFlushesMax: 4,
  poolFlushMs: 600_000,
  /** Calls on the directory of local images at once; it may be on another file system. */
  localImageCallsMax: 4,
  /** VMs without a record at whose disks `vmhostd doctor` looks, of any number in the pool. */
  doctorDisksMax: 16,
} as const
