import type { Log } from '../../log/log.ts'
import type { SourceReads } from '../../owners/migration/source-reads.ts'
import type { SourceSide } from '../../owners/migration/source-side.ts'
import type { AnswerObserver } from '../listener/answer-end.ts'
import type { RevocationState } from '../listener/revocations.ts'
import type { Health } from '../listener/health.ts'

type Public<T> = { readonly [K in keyof T]: T[K] }

/** The VMs that this host offers. */
export type Departures = Pick<SourceSide, 'manifest' | 'ensureRound' | 'handOver' | 'release' | 'abort'> & {
  readonly reads: Public<SourceReads>
}

/** Everything that the coordination API needs from the rest of the daemon. */
export type CoordinationDependencies = Health & {
  /** Undefined until the store is open; until then routes that need it answer 503 `starting_up`. */
  readonly departures: () => Departures | undefined
  /** The text of `docs/errors.md`. */
  readonly errorsMarkdown: () => Uint8Array
  /** Takes a function that returns the revocation lists of this listener. */
  readonly watchLists?: (state: () => RevocationState | undefined) => void
  /** Takes why the certificate files of this listener are not in use; undefined if they are. */
  readonly noteFiles?: (refused: unknown) => void
  readonly onAnswered?: AnswerObserver
  readonly log: Log
}
