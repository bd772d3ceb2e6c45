import type { TapSpec } from '../network/tap.ts'
import type { MonitorCapabilities } from '../monitor/capabilities.ts'

/** Everything that planning needs besides desired and observed. */
export type Facts = {
  readonly nowMs: number
  /** Whether one more VM may be saved now: saves share the disk. */
  readonly maySave: boolean
  /** How long the monitor of the active unit has not answered, in milliseconds; 0 if it answers. */
  readonly silentMs: number
  readonly bootId: string
  readonly capabilities: MonitorCapabilities
  /** Digest of the seed disk as it must be. */
  readonly seedDigest: string
  /** The tap as it must be; absent for a VM without network. */
  readonly tap?: TapSpec
}
