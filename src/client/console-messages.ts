/** What the daemon tells in text messages; docs/adr/0020-the-console.md has the framing. */
export type DaemonMessage =
  | { readonly kind: 'attached'; readonly place: AttachedPlace | undefined }
  | { readonly kind: 'position'; readonly session: string; readonly cursor: number }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'error'; readonly code: string; readonly detail: string }

/** Where in its session a console begins; a shell over SSH has no such place. */
export type AttachedPlace = {
  readonly session: string
  /** Offset of the next byte, counted from the first byte of the session. */
  readonly cursor: number
  /** How many bytes of history come first. */
  readonly replayBytes: number
  /** How many bytes are gone between the cursor that was asked for and this one. */
  readonly lostBytes: number
}

/** How a console ended: the status of RFC 6455, section 7.4.1, and what the reason says. */
export type ConsoleClose = {
  readonly status: number
  /** Stable, such as `vm_stopped`; empty where the connection broke or something else closed it. */
  readonly code: string
  /** What there is more to say; mostly empty. */
  readonly words: string
}

/** Of a connection that ended without a close frame. */
export const BROKEN: ConsoleClose = { status: 1006, code: '', words: '' }

/** A text message; undefined where it is none that is known, as of a newer daemon. */
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

/** A reason is a code, or a code, a colon and words. */
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
