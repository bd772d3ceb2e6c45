import { limits } from '../../config/limits.ts'

export type Refusal =
  | { readonly kind: 'again'; readonly because: string }
  | { readonly kind: 'refused'; readonly title: string; readonly detail: string }

/** A problem (RFC 9457) of the API. */
type Problem = {
  readonly code?: string
  readonly title: string
  readonly detail: string
  readonly retryable?: boolean
}

const UPGRADE_REQUIRED = 426

/** Finds out why a WebSocket was refused at this path: sends the same request without an upgrade, which is answered. */
export async function askWhy(route: string, wasAttached: boolean): Promise<Refusal> {
  let answer: Response
  try {
    answer = await fetch(route, { signal: AbortSignal.timeout(limits.consolePageAskMs) })
  } catch {
    return { kind: 'again', because: 'The daemon does not answer' }
  }
  // The only refusal left is that this request is not an upgrade.
  if (answer.status === UPGRADE_REQUIRED) return { kind: 'again', because: 'The connection failed' }
  const { code, title, detail, retryable } = await problemIn(answer)
  // The daemon may still count our own lost connection as a viewer.
  const ownPlace = wasAttached && code === 'console_viewers_full'
  if (retryable === true || ownPlace) return { kind: 'again', because: title }
  return { kind: 'refused', title, detail }
}

async function problemIn(answer: Response): Promise<Problem> {
  try {
    return (await answer.json()) as Problem
  } catch {
    return { title: `HTTP status ${answer.status}`, detail: 'the answer is not one of the daemon' }
  }
}
