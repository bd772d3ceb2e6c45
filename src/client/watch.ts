import { limits } from '../config/limits.ts'
import { abortable } from '../lib/abortable.ts'
import { timerSleep } from './timer-sleep.ts'
import { answered, answeredUnlessUnchanged } from './api-client.ts'
import { ApiProblem } from './api-problem.ts'
import { ConnectionFailed, mayPass } from './connection-failed.ts'
import type { components } from './schema.d.ts'
import type { Answered, ApiClient, Snapshot, Vm } from './api-client.ts'

/**
 * The result of a look at a resource. `silent` means that the daemon answered before and does not now, as during an
 * upgrade.
 */
export type Sight<T> =
  | { readonly kind: 'there'; readonly seen: T; readonly etag: string }
  | { readonly kind: 'gone' }
  | { readonly kind: 'silent'; readonly because: ConnectionFailed | ApiProblem }

export type WatchOptions = {
  /** Ends the watch: it throws the signal's reason. */
  readonly signal: AbortSignal
  /** Resolves after so many milliseconds, or rejects when the signal is raised. Default: a timer of Node. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>
  /** Milliseconds of a monotonic clock. Default: Node's. */
  readonly monotonicMs?: () => number
  /**
   * Whether the daemon is known to have had the resource: a first look that finds nothing then shows that it is gone.
   */
  readonly wasThere?: boolean
}

/** Asks for the resource with these headers; returns undefined if it is unchanged. */
type Ask<T> = (
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
) => Promise<Answered<T> | undefined>

export const watchVm = (client: ApiClient, id: string, options: WatchOptions): AsyncGenerator<Sight<Vm>> =>
  watch((headers, signal) => {
    const params = { path: { id } }
    return answeredUnlessUnchanged<Vm>(client.GET('/v1/vms/{id}', { params, headers, signal }))
  }, options)

export const watchSnapshot = (
  client: ApiClient,
  id: string,
  options: WatchOptions,
): AsyncGenerator<Sight<Snapshot>> =>
  watch((headers, signal) => {
    const params = { path: { id } }
    return answeredUnlessUnchanged<Snapshot>(client.GET('/v1/snapshots/{id}', { params, headers, signal }))
  }, options)

type Maintenance = components['schemas']['Maintenance']

/** Yields the state of the host now and after each change. */
export const watchMaintenance = (
  client: ApiClient,
  options: WatchOptions,
): AsyncGenerator<Sight<Maintenance>> =>
  watch(async (_headers, signal) => {
    const answer = await answered<Maintenance>(client.GET('/v1/maintenance', { signal }))
    // Its ETag is of what was set, and stays the same while a drain makes progress.
    return { ...answer, etag: JSON.stringify(answer.data) }
  }, options)

/**
 * Yields a resource now and after each change, until it is gone. Uses long polls (RFC 7240, `Prefer: wait`), or plain
 * polling if the daemon answers those at once. Throws the error of the first look; later looks wait for the daemon, and
 * throw what a restart of it does not cause.
 */
async function* watch<T>(ask: Ask<T>, options: WatchOptions): AsyncGenerator<Sight<T>> {
  const { signal, sleep = timerSleep, monotonicMs = () => performance.now(), wasThere = false } = options
  let etag = ''
  let first = true
  for (;;) {
    signal.throwIfAborted()
    const askedMs = monotonicMs()
    const sight = await look(ask, etag, signal).catch((error: unknown) =>
      isGone(error) && (wasThere || !first) ? ({ kind: 'gone' } as const) : silence(error, first),
    )
    if (sight !== undefined) yield sight
    if (sight?.kind === 'gone') return
    if (sight?.kind === 'there') {
      etag = sight.etag
      first = false
      continue
    }
    const tookMs = monotonicMs() - askedMs
    // A timer of Node rejects with an AbortError, and not with the reason.
    if (tookMs < limits.clientPollMs) await abortable(sleep(limits.clientPollMs - tookMs, signal), signal)
  }
}

async function look<T>(ask: Ask<T>, etag: string, signal: AbortSignal): Promise<Sight<T> | undefined> {
  const headers: Record<string, string> =
    etag === '' ? {} : { 'if-none-match': etag, prefer: `wait=${limits.clientLongPollSeconds}` }
  const answer = await ask(headers, signal)
  // A daemon without support for If-None-Match sends the same answer again.
  if (answer === undefined || answer.etag === etag) return undefined
  return { kind: 'there', seen: answer.data, etag: answer.etag }
}

const isGone = (error: unknown): boolean => error instanceof ApiProblem && error.code === 'not_found'

function silence(error: unknown, first: boolean): { kind: 'silent'; because: ConnectionFailed | ApiProblem } {
  const passing =
    (error instanceof ConnectionFailed && mayPass(error)) ||
    (error instanceof ApiProblem && error.problem.retryable)
  if (first || !passing) throw error
  return { kind: 'silent', because: error }
}
