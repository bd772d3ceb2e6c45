/** Bounds of images and of the disks made from them; a part of `limits`. */
export const imageLimits = {
  /** Images and clones. An image that keeps arriving may take the step's deadline, `imageFetchMs`. */
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
  /** An image that was found to be too large is not fetched again from the same URL for this long. */
  imageExcessMs: 3_600_000,
  /** Images whose lack of room is remembered. */
  imagesShortMax: 1000,
  /** Images whose kind is remembered. */
  imageLooksMax: 10_000,
  /** A source that sends nothing for this long has stalled. */
  imageStallMs: 30_000,
  imageRedirectsMax: 5,
  /** Enough downloads to fill a link; more would only share it. */
  imageFetchesMax: 4,
  /** A reflink takes milliseconds. On a file system without reflinks, copies would compete for the disk. */
  diskClonesMax: 4,

  /**
   * A source that sends less in this time is too slow: one byte every 29 s would keep other images from being fetched.
   */
  fetchPaceBytesMin: 64 * 1024,
  fetchPaceMs: 60_000,
  /**
   * Attempts to resume an image whose source broke off or is too slow. Each `fetchPaceBytesMin` that arrives resets the
   * count.
   */
  imageResumesMax: 8,
  /** Time between two searches for unused images. */
  imageSweepMs: 600_000,
  imageIdleHoursMax: 24 * 365,
} as const
