import type { FaultCode } from '../../core/errors.ts'
import type { StoreTerms } from './store-content.ts'

/** The order that a thread for storing an image gets at its start. The file stays open until the thread has ended. */
export type ImageOrder = StoreTerms & { readonly fd: number }

export type ToImageThread =
  /** Always the first message. */
  | { readonly kind: 'begin'; readonly unpacks: boolean }
  /** The next bytes from the source. The buffer is transferred. */
  | { readonly kind: 'chunk'; readonly chunk: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' }

export type FromImageThread =
  /** The thread is done with a chunk. Its buffer is transferred back. */
  | { readonly kind: 'used'; readonly buffer: ArrayBuffer }
  /** This many bytes from the start are written and will not change. */
  | { readonly kind: 'written'; readonly bytes: number }
  | { readonly kind: 'stored' }
  | { readonly kind: 'fault'; readonly code: FaultCode; readonly doing: string; readonly why: string }
  /** A system call failed with this errno, as a negative number. */
  | { readonly kind: 'errno'; readonly errno: number; readonly doing: string }
