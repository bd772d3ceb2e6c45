import type { Delivery, TrafficState } from '../core/world/network-state.ts'
import type { HostIdentity, UserId } from '../core/ids.ts'

/** A packet on its way to a guest that has left its source. */
export type HeldPacket = {
  /** Counts from 1 since the source holds frames. It stays the same when the source's daemon restarts. */
  readonly number: number
  /** The payload of each segment into which the frame must still be cut; 0 if the frame is a single packet. */
  readonly gsoSize: number
  /** How long ago it arrived at the source, in whole milliseconds. */
  readonly ageMs: number
  /** Whether it counts as traffic, so that a sleeping guest wakes for it. */
  readonly counts: boolean
  /** From the Ethernet header on. Checksums may be left open, see core/network/complete-frame.ts. */
  readonly frame: Uint8Array
}

/**
 * Watches traffic from host to guest, and holds it for a guest that is not there. The kernel's program knows a VM by
 * its user id, and finds the VM by the outgoing device of a frame. The kernel keeps the counters and the held frames,
 * so they outlive the daemon; each frame stays there until it is sent. Frames are in the daemon's memory only if the
 * kernel has no room for more. Every method throws HostFault `traffic_failed`.
 */
export interface Traffic {
  inspect(subject: HostIdentity): Promise<TrafficState>
  /**
   * Puts our program on the device, and starts the idle clock if there is none. Frames keep flowing or being held as
   * before.
   */
  ensureWatched(subject: HostIdentity): Promise<void>
  /** Restarts the idle clock, because the guest has just been started. */
  restart(subject: HostIdentity): Promise<void>
  /** Holds frames for the guest from now on, within bounds, and reports the first one that counts. */
  ensureHeld(subject: HostIdentity): Promise<void>
  /**
   * Delivers the held frames to the guest, in order, and lets frames go to the device again; with `deliver` false the
   * held frames are dropped. Frames older than `limits.heldFrameAgeMs` are dropped too. If frames flow already, it
   * returns zeros.
   */
  ensureFlowing(subject: HostIdentity, how: { readonly deliver: boolean }): Promise<Delivery>
  /**
   * Forgets the held packets numbered up to `after`, and returns the others, in order; none if frames flow. Name in
   * `after` only what another host has and keeps. Within the bounds of held frames, in number and bytes. Without
   * packets of {@link inject}.
   */
  keepHeldAfter(subject: HostIdentity, after: number): Promise<readonly HeldPacket[]>
  /**
   * Takes over packets that the guest's former host held, in ascending order. They are delivered before all frames that
   * are held here, or at once if frames flow. A packet that counts wants the guest, as a held one does. Each packet
   * is older by the time it waits here. A packet that is too old when it comes, or beyond the bounds of held frames,
   * is dropped; while frames are held, it is counted. One that is too old does not want the guest.
   *
   * A packet with the number of an earlier one is left out. These packets and numbers are in the daemon's memory only.
   * The device must be watched.
   */
  inject(subject: HostIdentity, packets: readonly HeldPacket[]): Promise<void>
  /** Forgets the guest; its device may be gone already. */
  remove(subject: HostIdentity): Promise<void>
  /**
   * Calls back when a packet that counts came for a guest whose frames are held; with `only`, for that guest alone.
   * Returns the function that ends this.
   */
  watch(onTraffic: (userId: UserId) => void, only?: HostIdentity): () => void
  /** Calls back at each packet that is held for a guest. Returns the function that ends this. */
  watchHeld(onHeld: (userId: UserId) => void): () => void
}
