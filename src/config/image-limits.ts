/** Bounds of images and of the disks that are made of them; a part of `limits`. */
export const imageLimits = {
  /** Images and clones. One image that keeps coming may take the step's deadline, `imageFetchMs`. */
  imageBytesMax: 1024 * 1024 * 1024 * 1024,
  /** A kernel or an initrd. The largest that distributions ship have some hundred MiB. */
  bootImageBytesMax: 4 * 1024 * 1024 * 1024,
  /** What comes packed may be a little longer than what it unpacks to: by so much, and by a 256th (ZSTD_compressBound of zstd.h). */
  packedExcessBytes: 1024 * 1024,
  /** While an image is stored the pool's free space is looked at each time that so much came. */
  imageRoomStepBytes: 8 * 1024 * 1024,
  /** An image that was found to be too large is not fetched again from the same URL for this long. */
  imageExcessMs: 3_600_000,
  /** Images of which it is remembered how much room they lacked. */
  imagesShortMax: 1000,
  /** Images of which it is remembered what they look like. */
  imageLooksMax: 10_000,
  /** A source that sends nothing for this long has stalled. */
  imageStallMs: 30_000,
  imageRedirectsMax: 5,
  /** Enough to fill a link; more would only share it. */
  imageFetchesMax: 4,
  /** A reflink takes milliseconds; where the file system has none, copies would fight for the disk. */
  diskClonesMax: 4,

  /** A source of an image that sends less in this time is too slow: one byte every 29 s would keep others from fetching. */
  fetchPaceBytesMin: 64 * 1024,
  fetchPaceMs: 60_000,
  /** Tries to go on with an image whose source broke off or is too slow, until `fetchPaceBytesMin` came; then they start again. */
  imageResumesMax: 8,
  /** Time between two searches for unused images. */
  imageSweepMs: 600_000,
  imageIdleHoursMax: 24 * 365,
} as const
