import type { Rejection } from '../../core/errors.ts'
import type { Unknown } from '../../core/world/world.ts'

/** Carries a rejection from any request handler to the one place that answers errors. Never leaves the API. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly rejection: Rejection
  /** Response headers that belong to this refusal, such as `Allow`. */
  readonly headers: Readonly<Record<string, string>>

  constructor(rejection: Rejection, headers: Readonly<Record<string, string>> = {}) {
    super(rejection.detail)
    this.rejection = rejection
    this.headers = headers
  }
}

export const STORE_NOT_OPEN: Rejection = { code: 'starting_up', detail: 'waiting for the store to open' }

/** Returns what is there only once the store is open. Refuses before that. */
export function onceOpen<T>(found: T | undefined): T {
  if (found === undefined) throw new Refused(STORE_NOT_OPEN)
  return found
}

/** Carries the reason why a request could not be decided: something it depends on could not be inspected. */
export class Undecided extends Error {
  override readonly name = 'Undecided'
  readonly unknown: Unknown

  constructor(unknown: Unknown) {
    super(unknown.message)
    this.unknown = unknown
  }
}
