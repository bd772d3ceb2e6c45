import type { ImageSource } from '../storage/image-source.ts'
import type { Compute, DesiredPower, ImageRole } from './desired.ts'
import type { MacAddress, Sha256 } from './ids.ts'

/** A request to create a VM, validated in shape. The sources are no part of what makes two requests the same. */
export type CreateVm = {
  readonly power: DesiredPower
  readonly compute: Compute
  readonly disk: { readonly sizeMib: number }
  readonly image: {
    readonly images: readonly {
      readonly role: ImageRole
      readonly sha256: Sha256
      readonly source: ImageSource
    }[]
    readonly kernelArguments?: string
  }
  readonly network?: {
    /** Chosen by the host where absent. */
    readonly macAddress?: MacAddress
    readonly ipv4Address?: string
    readonly ipv6Address?: string
  }
  readonly userData?: string
  readonly sshAuthorizedKeys: readonly string[]
}
