/** What the daemon tells a viewer beside the bytes of the terminal. */
export type DaemonMessage =
  /** Begins each session of a serial console; comes again where output went faster than it could be passed on. */
  | ({ readonly kind: 'attached'; readonly mode: 'tty' } & Attachment)
  | { readonly kind: 'attached'; readonly mode: 'ssh' }
  | { readonly kind: 'position'; readonly session: string; readonly cursor: number }
  | { readonly kind: 'waiting'; readonly for: 'start' }
  | { readonly kind: 'error'; readonly code: MessageErrorCode; readonly detail: string }

/** Where a viewer begins in a session; cursors are byte offsets in its output. */
export type Attachment = {
  readonly session: string
  /** Of the next binary byte. */
  readonly cursor: number
  /** How many bytes of history follow. */
  readonly replayBytes: number
  /** How many there were between where the viewer had stopped and `cursor`, and are gone. */
  readonly lostBytes: number
}

/** Why a text message of a viewer was passed over. */
export type MessageErrorCode = 'not_json' | 'unknown_message' | 'invalid_message'
