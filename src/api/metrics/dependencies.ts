import type { Log } from '../../log/log.ts'
import type { ServedApi } from '../listener/listener.ts'
import type { Health } from '../listener/health.ts'
import type { AnswerObserver } from '../listener/observe-answers.ts'
import type { ReadableMetrics } from './metrics-route.ts'

/** Everything that the listener for metrics needs from the rest of the daemon. */
export type MetricsDependencies = Health & {
  readonly metrics: ReadableMetrics
  readonly onAnswered?: AnswerObserver
  /** Called for each connection of a reader. `isRevoked` says whether its certificate is revoked by now. */
  readonly onReader?: NonNullable<ServedApi['onConnection']>
  /** The text of `docs/errors.md`. */
  readonly errorsMarkdown: () => Uint8Array
  readonly log: Log
}
