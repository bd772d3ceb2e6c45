/** A stretch that a thread must read of a file that the daemon has open. */
export type Stretch = { readonly fd: number; readonly from: number; readonly bytes: number }

/**
 * The running digest to which bytes belong: SHA-256 of the whole image, or MD5 and SHA-256 of the part that is being
 * made.
 */
export type DigestOf = 'image' | 'part'

/** A flag shared with all threads: not 0 once the result is no longer needed. */
export type Unwanted = Int32Array<SharedArrayBuffer>

export type CompressTerms = {
  /** zstd's compression level. */
  readonly level: number
  readonly unwanted: Unwanted
}

export type ThreadTask =
  /** Returns one zstd frame. */
  | ({ readonly kind: 'compress' } & CompressTerms & Stretch)
  | ({ readonly kind: 'digest'; readonly of: DigestOf } & Stretch)
  | { readonly kind: 'digest-zeros'; readonly of: DigestOf; readonly bytes: number }
  /** Returns the digests of everything since the last `end-digest`, and resets them. */
  | { readonly kind: 'end-digest'; readonly of: DigestOf }

/** Digests in lower-case hexadecimal. `md5` counts only for a part. */
export type Digests = { readonly md5: string; readonly sha256: string }

export type ThreadAnswer =
  | { readonly kind: 'done' }
  | { readonly kind: 'frame'; readonly frame: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'digests'; readonly digests: Digests }
  | { readonly kind: 'unwanted' }
  /** The file ends before the stretch does. */
  | { readonly kind: 'cut-short' }
  /** A failed system call has an `errno`, as a negative number. Any other error has only a description. */
  | { readonly kind: 'failed'; readonly errno?: number; readonly because: string }

/** The settings that a thread gets at its start. */
export type ThreadSetting = { readonly nice: number }
