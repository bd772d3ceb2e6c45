/** Abilities of a monitor. Planning branches on these, never on a monitor's name. */
export type MonitorCapabilities = {
  /** A guest can be started with its vCPUs stopped. */
  readonly startPaused: boolean
  /** A disk can grow while the guest runs, and the guest sees it. */
  readonly growDiskOnline: boolean
  /** A guest can be saved to a file, and resumed from it in another process. */
  readonly save: boolean
  readonly vcpusMax: number
}
