import { limits } from '../config/limits.ts'
import { cutText } from '../lib/text.ts'
import { faults } from './problems/catalogue.ts'
import type { rejections } from './problems/catalogue.ts'
import type { FaultEntry } from './problems/entry.ts'

export type RejectionCode = keyof typeof rejections
export type FaultCode = keyof typeof faults

/** Every code that an answer can have. */
export type ProblemCode = RejectionCode | FaultCode

export type RetryClass = FaultEntry['retry']

/** A refusal of a request; core checks return it and never throw it. */
export type Rejection = {
  readonly code: RejectionCode
  /** Says what to do, in words for the caller. */
  readonly detail: string
  readonly errors?: readonly { readonly pointer: string; readonly code: string; readonly detail: string }[]
}

/**
 * The reason why something could not be done or inspected, as a value. A {@link HostFault} that is caught becomes one.
 */
export type Hindrance = {
  readonly code: FaultCode
  readonly retry: RetryClass
  /** With its causes, in one line. */
  readonly message: string
}

/**
 * The host could not do or report something. Drivers, steps and the store throw it. The message says what this level
 * was doing and to which object; the cause is chained, never pasted.
 * A message longer than `limits.faultCharactersMax` is cut.
 */
export class HostFault extends Error {
  override readonly name = 'HostFault'
  readonly code: FaultCode
  readonly retry: RetryClass

  constructor(code: FaultCode, message: string, options: { cause?: unknown; retry?: RetryClass } = {}) {
    super(
      cutText(message, limits.faultCharactersMax),
      options.cause === undefined ? {} : { cause: options.cause },
    )
    this.code = code
    this.retry = options.retry ?? faults[code].retry
  }
}
