import type { Delivery, TrafficState, TrafficSubject } from '../core/world/network-state.ts'
import type { UserId } from '../core/ids.ts'

/**
 * Watches traffic from host to guest, and holds it for a guest that is not there. The kernel keeps the counters and the
 * held frames, so they outlive the daemon; each frame stays there until it is sent. Frames are in the daemon's memory
 * only if the kernel has no room for more. Every method throws HostFault `traffic_failed`.
 */
export interface Traffic {
  inspect(subject: TrafficSubject): Promise<TrafficState>
  /**
   * Puts our program on the device, and starts the idle clock if there is none. Frames keep flowing or being held as
   * before.
   */
  ensureWatched(subject: TrafficSubject): Promise<void>
  /** Restarts the idle clock, because the guest has just been started. */
  restart(subject: TrafficSubject): Promise<void>
  /** Holds frames for the guest from now on, within bounds, and reports the first one that counts. */
  ensureHeld(subject: TrafficSubject): Promise<void>
  /**
   * Delivers the held frames to the guest, in order, and lets frames go to the device again; with `deliver` false the
   * held frames are dropped. Frames older than `limits.heldFrameAgeMs` are dropped too. If frames flow already, it
   * returns zeros.
   */
  ensureFlowing(subject: TrafficSubject, how: { readonly deliver: boolean }): Promise<Delivery>
  /** Forgets the guest; its device may be gone already. */
  remove(subject: TrafficSubject): Promise<void>
  /**
   * Calls back when a packet that counts came for a guest whose frames are held. Returns the function that ends this.
   */
  watch(onTraffic: (userId: UserId) => void): () => void
}
