/** Text messages of the daemon; docs/adr/0020-the-console.md has the framing. */
export type DaemonMessage =
  | { readonly kind: 'attached'; readonly place: AttachedPlace | undefined }
  | { readonly kind: 'position'; readonly session: string; readonly cursor: number }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'error'; readonly code: string; readonly detail: string }

/** The place in its session at which a console begins; a shell over SSH has none. */
export type AttachedPlace = {
  readonly session: string
  /** Offset of the next byte, counted from the first byte of the session. */
  readonly cursor: number
  /** How many bytes of history come first. */
  readonly replayBytes: number
  /** How many bytes are gone between the requested cursor and this one. */
  readonly lostBytes: number
}

/** The end of a console: the status of RFC 6455, section 7.4.1, and the parsed reason. */
export type ConsoleClose = {
  readonly status: number
  /** Stable, such as `vm_stopped`; empty if the connection broke or another program closed it. */
  readonly code: string
  /** Further explanation; mostly empty. */
  readonly words: string
}

/** The end of a connection without a close frame. */
export const BROKEN: ConsoleClose = { status: 1006, code: '', words: '' }

/** Parses a text message; undefined if it is not known, for example from a newer daemon. */
export function parseDaemonMessage(text: string): DaemonMessage | undefined {
  const { attached, position, waiting, error } = objectIn(text)
  if (isRecord(attached)) return attachedFrom(attached)
  if (isRecord(position)) {
    const { session, cursor } = position
    return isText(session) && isCount(cursor) ? { kind: 'position', session, cursor } : undefined
  }
  if (isRecord(waiting)) return { kind: 'waiting' }
  if (!isRecord(error)) return undefined
  const { code, detail } = error
  return isText(code) && isText(detail) ? { kind: 'error', code, detail } : undefined
}

function attachedFrom(attached: Record<string, unknown>): DaemonMessage | undefined {
  const { mode, session, cursor, replay_bytes: replayBytes, lost_bytes: lostBytes } = attached
  if (mode === 'ssh') return { kind: 'attached', place: undefined }
  if (!isText(session) || !isCount(cursor) || !isCount(replayBytes) || !isCount(lostBytes)) return undefined
  return { kind: 'attached', place: { session, cursor, replayBytes, lostBytes } }
}

/** Parses a reason: a code, or a code, a colon and words. */
export function parseClose(status: number, reason: string): ConsoleClose {
  const [, code = '', words = ''] = /^([a-z0-9_]+)(?:: (.*))?$/s.exec(reason) ?? []
  return { status, code, words: code === '' ? reason : words }
}

function objectIn(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : {}
  } catch {
    return {}
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === 'string'
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0
