/** Bounds of a host that is taken out of service; a part of `limits`. */
export const maintenanceLimits = {
  /** The longest reason, in characters. */
  maintenanceReasonCharactersMax: 200,
  /** Guests that come to rest at the same time on a host that is drained, unless asked for otherwise, and at most. */
  drainAtOnceDefault: 2,
  drainAtOnceMax: 32,
  /** Time in which a guest may end by itself there, unless asked for otherwise. */
  drainGraceSecondsDefault: 60,
  /** From a change of a VM to the look at all guests of a drained host. Changes of that time share a look. */
  drainLookMs: 200,
  /** The longest time between two such looks. */
  drainRecheckMs: 10_000,
} as const
