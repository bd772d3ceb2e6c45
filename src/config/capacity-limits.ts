/** The bounds of what a host promises, with their units; part of `limits`. */
export const capacityLimits = {
  /**
   * VMs whose console masters systemd keeps. It hands over their names in one variable, of 128 KiB at most (MAX_ARG_STRLEN,
   * execve(2)): past 1,820 names of the longest ids no daemon starts. Stores under way may pass this by `passesMax`.
   */
  consolePlacesMax: 1750,
  /** Of these, the part that VMs which never sleep may not hold: one that wakes finds a place there. */
  sleepersPlacesShare: 0.1,
  /** What a saved state takes besides the guest's memory: the state of its devices and the index of its pages. */
  savedDevicesMib: 8,
  /** The least quota of staging, and the most of a pool that it may be. */
  stagingQuotaMibMin: 64,
  stagingPoolShareMax: 0.25,
} as const
