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
 * Returns whether a reader that knows everything up to a number may lack something that is not kept: events were
 * removed, or the number is of another host, of a lost store, or from before older records were put back.
 */
export const lacksEvents = ({ newest, keptAfter, beganAfter }: EventHistory, known: number): boolean =>
  known < keptAfter || known > newest || (known > 0 && known < beganAfter)

/** The numbers of a store, and which of them may be of progress that an earlier process did not write. */
export type ChangeHistory = EventHistory & {
  readonly atOpening: {
    /** All progress with numbers up to this one was on record. */
    readonly written: number
    /** All numbers that this process gives out are higher. */
    readonly reserved: number
  }
}

/**
 * Returns whether a reader that knows everything up to a revision may have seen progress that was lost with an earlier
 * process. A record that is as it was before that progress has an older revision, so the reader would not get it.
 */
export const lacksChanges = (history: ChangeHistory, known: number): boolean =>
  lacksEvents(history, known) || (known > history.atOpening.written && known < history.atOpening.reserved)

/** Returns the number after which a reader that lacks changes gets events: all that are kept and may be news for it. */
export const newsAfter = (history: ChangeHistory, known: number): number =>
  lacksEvents(history, known) ? history.keptAfter : Math.max(history.atOpening.written, history.keptAfter)
