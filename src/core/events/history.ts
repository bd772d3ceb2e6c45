/** The numbers of a store: which it gave out, and of which it has the events. */
export type EventHistory = {
  /** The newest number that an event, or a revision, has. */
  readonly newest: number
  /** All events with higher numbers are kept; 0 if all are. */
  readonly keptAfter: number
  /** Numbers up to this one were given out by another store, if at all. */
  readonly beganAfter: number
}

/**
 * Returns whether a reader that knows everything up to a number may lack something that is not kept: events were removed,
 * or the number is of another host, of a lost store, or from before older records were put back.
 */
export const lacksEvents = ({ newest, keptAfter, beganAfter }: EventHistory, known: number): boolean =>
  known < keptAfter || known > newest || (known > 0 && known < beganAfter)
