/** Where a viewer had stopped: a cursor, and the session it was told for, where it still knows. */
export type StoppedAt = { readonly cursor: number; readonly session?: string }

/** Where it goes on, and how much it has missed for ever. */
export type Replay = { readonly from: number; readonly lostBytes: number }

/**
 * Decides where a viewer begins in a session whose kept output goes from `start` to `end`. A cursor of another session,
 * or one that this session has not reached, says nothing about this one: all that is kept is replayed, and nothing of it
 * counts as lost.
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
