/**
 * Shortens a wait so that it ends at a multiple of `stepMs`, together with other waits. It may become 0.
 *
 * @param monotonicMs the time now, of a clock that is never set back
 */
export const endingTogetherMs = (waitMs: number, stepMs: number, monotonicMs: number): number =>
  Math.max(0, waitMs - ((monotonicMs + waitMs) % stepMs))
