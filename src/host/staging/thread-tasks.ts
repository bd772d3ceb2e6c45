/** What a thread is told to read: a stretch of a file that the daemon has open. */
export type Stretch = { readonly fd: number; readonly from: number; readonly bytes: number }

/** Which running digest something belongs to: SHA-256 of the whole image, MD5 and SHA-256 of the part that is being made. */
export type DigestOf = 'image' | 'part'

/** Shared by all threads: not 0 where nobody wants what was asked for any more. */
export type Unwanted = Int32Array<SharedArrayBuffer>

export type CompressTerms = {
  /** zstd's. */
  readonly level: number
  readonly unwanted: Unwanted
}

export type ThreadTask =
  /** Answers one zstd frame. */
  | ({ readonly kind: 'compress' } & CompressTerms & Stretch)
  | ({ readonly kind: 'digest'; readonly of: DigestOf } & Stretch)
  | { readonly kind: 'digest-zeros'; readonly of: DigestOf; readonly bytes: number }
  /** Answers the digests of all since the last time, and begins anew. */
  | { readonly kind: 'end-digest'; readonly of: DigestOf }

/** Lower-case hexadecimal; of a part, `md5` too. */
export type Digests = { readonly md5: string; readonly sha256: string }

export type ThreadAnswer =
  | { readonly kind: 'done' }
  | { readonly kind: 'frame'; readonly frame: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'digests'; readonly digests: Digests }
  | { readonly kind: 'unwanted' }
  /** The file ends before the stretch does. */
  | { readonly kind: 'cut-short' }
  /** `errno` of a system call that failed, below 0; else what is known of another error. */
  | { readonly kind: 'failed'; readonly errno?: number; readonly because: string }

/** Given to a thread when it starts. */
export type ThreadSetting = { readonly nice: number }
