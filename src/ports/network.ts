import type { GuestRule } from '../core/network/guest-rule.ts'
import type { TapSpec, TapState } from '../core/network/tap.ts'
import type { FirewallState } from '../core/plan/world.ts'
import type { DeviceName, UserId, VmId } from '../core/vm/ids.ts'

/** Routed tap devices. Every method throws HostFault. */
export interface Taps {
  inspect(device: DeviceName, id: VmId, userId: UserId): Promise<TapState>
  ensure(spec: TapSpec): Promise<void>
  /** Removes the device if it is this VM's; leaves a foreign one alone. */
  remove(device: DeviceName, id: VmId): Promise<void>
  /** Devices that carry our mark (interface alias). */
  list(): Promise<readonly { readonly device: DeviceName; readonly id: VmId; readonly storeId: string }[]>
}

/** The table `inet vmhostd`, of which the driver is the one writer. Every method throws HostFault. */
export interface Firewall {
  inspect(device: DeviceName): Promise<FirewallState>
  /** Puts the guest's rule in force, with the rest of the table as it shall be, in one transaction. */
  ensureGuest(rule: GuestRule): Promise<void>
  removeGuest(device: DeviceName): Promise<void>
}
