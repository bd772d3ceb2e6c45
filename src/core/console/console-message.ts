/** Messages of the daemon to a viewer, besides the bytes of the terminal. A viewer may be older than the daemon. */
export type DaemonMessage<ErrorCode extends string = MessageErrorCode> =
  /**
   * Begins each session; sent again within one if output came faster than it could be passed on. A shell over SSH has no
   * place.
   */
  | { readonly kind: 'attached'; readonly place: Attachment | undefined }
  | { readonly kind: 'position'; readonly session: string; readonly cursor: number }
  /** There is no session now; `attached` comes with the next. */
  | { readonly kind: 'waiting' }
  | { readonly kind: 'error'; readonly code: ErrorCode; readonly detail: string }

/** The place at which a viewer begins in a session; cursors are byte offsets in its output. */
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
