import type { TapSpec } from '../network/tap.ts'
import type { SaveForm } from '../world/saved-state.ts'
import type { Compute, DiskLimits } from '../desired.ts'
import type { UserId, VmId } from '../ids.ts'
import type { KernelFormat, VmMark } from '../world/world.ts'

/**
 * The content of the seed as a metadata service answers it. The paths are those of EC2 (Amazon EC2 User Guide, "Access
 * instance metadata"); user data, vendor data and network configuration are the files of the seed.
 */
export type GuestMetadata = {
  readonly latest: {
    readonly 'meta-data': {
      readonly 'instance-id': string
      readonly 'local-hostname': string
      readonly 'public-keys': Readonly<Record<string, { readonly 'openssh-key': string }>>
    }
    readonly 'user-data': string
    readonly 'vendor-data': string
    readonly 'network-config'?: string
  }
}

/** One complete guest machine: everything that a monitor needs to start it. Paths are absolute. */
export type MachineSpec = {
  readonly id: VmId
  readonly userId: UserId
  readonly compute: Compute
  readonly kernelPath: string
  readonly initrdPath?: string
  readonly diskPath: string
  readonly diskLimits: DiskLimits
  readonly seedPath: string
  /** The content of the seed, for a monitor with a metadata service. */
  readonly guestMetadata: GuestMetadata
  /** The VM's own arguments; the monitor puts the host's before them. */
  readonly kernelArguments: string
  readonly tap?: TapSpec
  readonly ptsPath: string
  readonly startPaused: boolean
  /** The directory in which the monitor may write saved memory. */
  readonly saveDirectory: string
  /** The file of a saved guest to restore. */
  readonly restorePath?: string
  /** How that file holds the memory; `mapped` when absent. */
  readonly restoreForm?: SaveForm
  /** The mark that the unit carries. */
  readonly mark: VmMark
}

/** Abilities of a monitor. Planning branches on these, never on a monitor's name. */
export type MonitorCapabilities = {
  /** A guest can be started with its vCPUs stopped. */
  readonly startPaused: boolean
  /** A guest can be saved to a file, and resumed from it in another process. */
  readonly save: boolean
  /** The kernels that it can boot. */
  readonly kernelFormats: readonly KernelFormat[]
}
