/** Bounds of a host that is taken out of service; a part of `limits`. */
export const maintenanceLimits = {
  /** The longest reason, in characters. */
  maintenanceReasonCharactersMax: 200,
} as const
