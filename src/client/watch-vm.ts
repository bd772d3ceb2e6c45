import { limits } from '../config/limits.ts'
import { answeredUnlessUnchanged } from './api-client.ts'
import { ApiProblem } from './api-problem.ts'
import { ConnectionFailed } from './connection-failed.ts'
import type { ApiClient, Vm } from './api-client.ts'

/** What a look at a VM shows; `silent` is a daemon that was there before and does not answer now, as during an upgrade. */
export type Sight =
  | { readonly kind: 'vm'; readonly vm: Vm; readonly etag: string }
  | { readonly kind: 'gone' }
  | { readonly kind: 'silent'; readonly because: ConnectionFailed | ApiProblem }

export type WatchOptions = {
  /** Ends the watch: it throws the signal's reason. */
  readonly signal: AbortSignal
  /** Resolves after so many milliseconds, or rejects when the signal is raised. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicMs: () => number
}

/**
 * What a VM looks like now and after each change, until it is gone, by long polls (RFC 7240, `Prefer: wait`); where the
 * daemon answers those at once, by plain polling. Throws what the first look ran into; later ones wait for the daemon.
 */
export async function* watchVm(client: ApiClient, id: string, options: WatchOptions): AsyncGenerator<Sight> {
  const { signal, sleep, monotonicMs } = options
  let etag = ''
  let first = true
  for (;;) {
    signal.throwIfAborted()
    const askedMs = monotonicMs()
    const sight = await look(client, id, { etag, signal }).catch((error: unknown) => silence(error, first))
    if (sight !== undefined) yield sight
    if (sight?.kind === 'gone') return
    if (sight?.kind === 'vm') {
      etag = sight.etag
      first = false
      continue
    }
    const tookMs = monotonicMs() - askedMs
    if (tookMs < limits.clientPollMs) await sleep(limits.clientPollMs - tookMs, signal)
  }
}

type Look = { readonly etag: string; readonly signal: AbortSignal }

async function look(client: ApiClient, id: string, { etag, signal }: Look): Promise<Sight | undefined> {
  const headers = etag === '' ? {} : { 'if-none-match': etag, prefer: `wait=${limits.clientLongPollSeconds}` }
  try {
    const call = client.GET('/v1/vms/{id}', { params: { path: { id } }, headers, signal })
    const answer = await answeredUnlessUnchanged(call)
    // A daemon that knows no If-None-Match answers the same again.
    if (answer === undefined || answer.etag === etag) return undefined
    return { kind: 'vm', vm: answer.data, etag: answer.etag }
  } catch (error) {
    if (etag !== '' && error instanceof ApiProblem && error.code === 'not_found') return { kind: 'gone' }
    throw error
  }
}

function silence(error: unknown, first: boolean): Sight {
  const passing =
    error instanceof ConnectionFailed || (error instanceof ApiProblem && error.problem.retryable)
  if (first || !passing) throw error
  return { kind: 'silent', because: error }
}
