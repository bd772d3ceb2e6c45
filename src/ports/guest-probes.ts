import type { ReadinessCheck } from '../core/desired.ts'

export type ProbeTarget = {
  /** The guest's address, IPv4 or IPv6. */
  readonly address: string
  readonly check: ReadinessCheck
}

/** Questions to guests whether they are ready. They do not count as traffic: no guest wakes or stays awake for them. */
export interface GuestProbes {
  /**
   * Asks once, for at most `readinessProbeMs`. Resolves to undefined if the guest is ready, else to why it is not.
   * `tcp`: the port takes a connection. `http`: a GET of the path is answered with a status from 200 to 399.
   * Never fails.
   */
  probe(target: ProbeTarget): Promise<string | undefined>
}
