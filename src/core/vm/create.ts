import type { ImageSource } from '../outbound/image-source.ts'
import type {
  Compute,
  DesiredPower,
  Disk,
  ExitPolicy,
  ImageRole,
  Network,
  ReadinessCheck,
  RestartPolicy,
} from '../desired.ts'
import type { ChangeOf } from '../../lib/changed.ts'
import type { MonitorKind } from '../monitor/monitor-kind.ts'
import type { MacAddress, Sha256 } from '../ids.ts'
import type { Metadata } from './record.ts'

/**
 * A network as it is requested. The host chooses the MAC address and the name servers if they are absent. An empty list
 * of name servers is none.
 */
export type CreateNetwork = Omit<Network, 'macAddress'> & { readonly macAddress?: MacAddress }

/**
 * A change of a network: an absent member stays as it is, and `null` removes it. If the MAC address or the name servers
 * are `null`, the host chooses.
 */
export type SetNetwork = { readonly [Name in keyof Network]?: Network[Name] | null }

/** A change of compute: all but `wake` are given. */
export type ComputeChange = Omit<Compute, 'wake'> & Pick<ChangeOf<Compute>, 'wake'>

/** A change of the exit policy: an absent member stays as it is, and `null` is the default. */
export type ExitChange = {
  readonly restartPolicy?: RestartPolicy | null
  readonly deleteAfterSeconds?: number | null
  readonly deleteOnExit?: boolean | null
}

/** A request to create a VM, validated in shape. The sources do not count when two requests are compared. */
export type CreateVm = {
  readonly power: DesiredPower
  /** Absent: the host chooses. */
  readonly monitor?: MonitorKind
  readonly compute: Compute
  readonly disk: Disk
  readonly image: {
    readonly images: readonly {
      readonly role: ImageRole
      readonly sha256: Sha256
      readonly source: ImageSource
    }[]
    readonly kernelArguments?: string
  }
  readonly network?: CreateNetwork
  readonly readiness?: ReadinessCheck
  readonly exit?: ExitPolicy
  readonly metadata: Metadata
  readonly userData?: string
  readonly sshAuthorizedKeys: readonly string[]
}

/** An image, and where it can be fetched. */
export type SourcedImage = { readonly sha256: Sha256; readonly source: ImageSource }

/** Inputs of a VM that were given at its creation or since. No answer repeats them. */
export type VmInputs = {
  /**
   * The request that created the VM, in canonical form and without its URLs. A repeated request is the same if this is
   * equal.
   */
  readonly request: string
  readonly sources: ReadonlyMap<Sha256, ImageSource>
  readonly userData?: string
  readonly sshAuthorizedKeys: readonly string[]
}

/** A change of the inputs: an absent member stays as it is, and user data that is `null` is removed. */
export type InputsChange = {
  readonly userData?: string | null
  readonly sshAuthorizedKeys?: readonly string[]
  /** Added to the stored ones, of which only those of images that the VM still needs are kept. */
  readonly sources?: VmInputs['sources']
}

/** A change of what the guest boots with: an absent member stays as it is, and `null` removes it. */
export type BootChange = {
  readonly kernel?: SourcedImage
  readonly initrd?: SourcedImage | null
  readonly kernelArguments?: string | null
}
