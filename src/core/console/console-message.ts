/** Messages of the daemon to a viewer, besides the bytes of the terminal. */
export type DaemonMessage =
  /** Begins each session of a serial console; sent again if output came faster than it could be passed on. */
  | ({ readonly kind: 'attached'; readonly mode: 'tty' } & Attachment)
  | { readonly kind: 'attached'; readonly mode: 'ssh' }
  | { readonly kind: 'position'; readonly session: string; readonly cursor: number }
  | { readonly kind: 'waiting'; readonly for: 'start' }
  | { readonly kind: 'error'; readonly code: MessageErrorCode; readonly detail: string }

/** The position at which a viewer begins in a session; cursors are byte offsets in its output. */
export type Attachment = {
  readonly session: string
  /** Cursor of the next binary byte. */
  readonly cursor: number
  /** Number of bytes of history that follow. */
  readonly replayBytes: number
  /** Number of lost bytes between the viewer's last position and `cursor`. */
  readonly lostBytes: number
}

/** The reason why a text message of a viewer was ignored. */
export type MessageErrorCode = 'not_json' | 'unknown_message' | 'invalid_message'
