const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** The last traffic of a running VM may be known a minute late, so anything newer than this is the same. */
const NEW_MS = 2 * MINUTE_MS

/** Shows a span in one unit, which a table can be read down by: `1 min`, `90 min`, `5 h`, `12 d`. */
export function coarseSpan(ms: number): string {
  if (ms < MINUTE_MS) return 'under 1 min'
  if (ms < 2 * HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`
  if (ms < 2 * DAY_MS) return `${Math.floor(ms / HOUR_MS)} h`
  return `${Math.floor(ms / DAY_MS)} d`
}

/** Says how long ago something was. A time of the near future is one of another clock, and so is now. */
export const agoWords = (ms: number): string => (ms < NEW_MS ? 'just now' : `${coarseSpan(ms)} ago`)
