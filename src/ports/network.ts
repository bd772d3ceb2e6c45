import type { GuestDrops, LinkCounters } from '../core/world/counters.ts'
import type { GuestRule, TapState, FirewallState } from '../core/world/network-state.ts'
import type { TapSpec } from '../core/network/tap.ts'
import type { DeviceName, VmId } from '../core/ids.ts'

/** Routed tap devices. Every method throws HostFault. */
export interface Taps {
  inspect(device: DeviceName, id: VmId): Promise<TapState>
  /**
   * Brings the VM's tap to what it must be. Makes it again if it differs in what only its making sets; a monitor that
   * holds it loses it then.
   */
  ensure(spec: TapSpec): Promise<void>
  /**
   * Gives the monitor with this process id its device back if the monitor lost it, for example because somebody deleted
   * the tap under a running guest. The guest only loses packets. Does nothing if the monitor holds the device.
   */
  ensureAttached(spec: TapSpec, mainPid: number): Promise<void>
  /** Removes the device if it is this VM's; leaves a foreign one alone. */
  remove(device: DeviceName, id: VmId): Promise<void>
  /** Lists devices that carry our mark (interface alias). */
  list(): Promise<readonly { readonly device: DeviceName; readonly id: VmId; readonly storeId: string }[]>
  counters(device: DeviceName): Promise<LinkCounters>
  /**
   * Calls back when a device of our naming, its addresses, routes or neighbours changed; undefined if any of them may
   * have changed.
   */
  watch(onChange: (device: DeviceName | undefined) => void): void
}

/** The table `inet vmhostd`, which only the driver writes. Every method throws HostFault. */
export interface Firewall {
  inspect(device: DeviceName): Promise<FirewallState>
  /** Puts the guest's rule in force, with the rest of the table as it must be, in one transaction. */
  ensureGuest(rule: GuestRule): Promise<void>
  removeGuest(device: DeviceName): Promise<void>
  /**
   * Takes out of the table the guests that an earlier daemon let through and this one does not know. A table that is
   * absent stays absent.
   */
  removeStrangers(): Promise<void>
  /**
   * Returns what was dropped of a guest's packets since it came into the table. Throws if the table is not as it was
   * written.
   */
  counters(device: DeviceName): Promise<GuestDrops>
  /** Calls back when something else changed the table. */
  watch(onChange: () => void): void
}
