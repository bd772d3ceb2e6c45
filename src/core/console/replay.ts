/** The position at which a viewer had stopped: a cursor, and its session, if the viewer still knows it. */
export type StoppedAt = { readonly cursor: number; readonly session?: string }

/** The position at which a viewer continues, and the number of bytes it has lost. */
export type Replay = { readonly from: number; readonly lostBytes: number }

/**
 * Decides where a viewer begins in a session whose kept output goes from `start` to `end`. A cursor of another session,
 * or one that this session has not reached, says nothing about this session. Then everything kept is replayed, and
 * nothing counts as lost.
 */
export function planReplay(
  session: { readonly id: string; readonly start: number; readonly end: number },
  stopped: StoppedAt | undefined,
): Replay {
  const { id, start, end } = session
  const foreign =
    stopped === undefined || stopped.cursor > end || (stopped.session !== undefined && stopped.session !== id)
  if (foreign) return { from: start, lostBytes: 0 }
  const from = Math.max(stopped.cursor, start)
  return { from, lostBytes: from - stopped.cursor }
}
