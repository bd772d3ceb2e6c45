import type { ControllerClient } from '../lab/controller-client.ts'

/** A VM that random work is done on, and who does it. */
export type SoakVm = {
  readonly id: string
  readonly ipv4: string
  /** Its create request. */
  readonly request: object
  /** For one request at a time. */
  readonly client: ControllerClient
  /** From 0 up to, but not including, 1. */
  readonly random: () => number
}
