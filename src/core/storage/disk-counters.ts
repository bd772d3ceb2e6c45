/** Counters of a VM's disk since its monitor started. */
export type DiskCounters = {
  readonly readBytes: number
  readonly readOperations: number
  readonly writtenBytes: number
  readonly writeOperations: number
}
