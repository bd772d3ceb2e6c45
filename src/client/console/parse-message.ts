import type { DaemonMessage } from '../../core/console/console-message.ts'

/** A message as a viewer gets it: a newer daemon may have more codes of errors. */
export type ReceivedMessage = DaemonMessage<string>

/** Parses a text message; undefined if it is not known, for example from a newer daemon. */
export function parseDaemonMessage(text: string): ReceivedMessage | undefined {
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

function attachedFrom(attached: Record<string, unknown>): ReceivedMessage | undefined {
  const { mode, session, cursor, replay_bytes: replayBytes, lost_bytes: lostBytes } = attached
  if (mode === 'ssh') return { kind: 'attached', place: undefined }
  if (!isText(session) || !isCount(cursor) || !isCount(replayBytes) || !isCount(lostBytes)) return undefined
  return { kind: 'attached', place: { session, cursor, replayBytes, lostBytes } }
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
