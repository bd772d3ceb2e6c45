import type { FaultCode } from '../../core/errors.ts'
import type { StoreTerms } from './store-content.ts'

/** What a thread that stores an image is given when it starts; the file stays open until it has ended. */
export type ImageOrder = StoreTerms & { readonly fd: number }

export type ToImageThread =
  /** First. */
  | { readonly kind: 'begin'; readonly unpacks: boolean }
  /** The next bytes of what a source sends. Its buffer is handed over. */
  | { readonly kind: 'chunk'; readonly chunk: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' }

export type FromImageThread =
  /** A chunk that is of no use any more. Its buffer is handed back. */
  | { readonly kind: 'used'; readonly buffer: ArrayBuffer }
  /** Nothing is written to so many bytes from the start any more. */
  | { readonly kind: 'written'; readonly bytes: number }
  | { readonly kind: 'stored' }
  | { readonly kind: 'fault'; readonly code: FaultCode; readonly doing: string; readonly why: string }
  /** `errno` of a system call that failed, below 0. */
  | { readonly kind: 'errno'; readonly errno: number; readonly doing: string }
