/** What a monitor can do. Planning branches on these, never on a monitor's name. */
export type MonitorCapabilities = {
  readonly pause: boolean
  /** A guest can be started with its vCPUs stopped. */
  readonly startPaused: boolean
  /** A disk can grow while the guest runs, and the guest is told. */
  readonly growDiskOnline: boolean
  /** A guest can be saved to a file, and go on from it in another process. */
  readonly save: boolean
  readonly vcpusMax: number
}
