/** The bounds of what a host promises, with their units; part of `limits`. */
export const capacityLimits = {
  /**
   * VMs whose console masters systemd keeps. systemd hands over their names in one variable, of at most 128 KiB
   * (MAX_ARG_STRLEN, execve(2)). With more than 1,820 names of the longest ids, no daemon starts. Stores that are
   * running may exceed this by `passesMax`.
   */
  consolePlacesMax: 1750,
  /** The share of these places that VMs which never sleep may not hold, so that a VM that wakes finds a place. */
  sleepersPlacesShare: 0.1,
  /** Space that a saved state needs besides the guest's memory: the state of its devices and the index of its pages. */
  savedDevicesMib: 8,
  /** The smallest quota of staging, and the largest share of a pool that it may be. */
  stagingQuotaMibMin: 64,
  stagingPoolShareMax: 0.25,
} as const
