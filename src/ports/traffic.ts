import type { Delivery, TrafficState, TrafficSubject } from '../core/idle/traffic-state.ts'
import type { UserId } from '../core/vm/ids.ts'

/**
 * Traffic from host to guest: whether there is any, and what keeps it for a guest that is not there. What it knows and
 * holds is the kernel's and outlives the daemon, each frame until it is sent; only where so much is held that the kernel has
 * no room for more are frames in the daemon's memory. Every method throws HostFault `traffic_failed`.
 */
export interface Traffic {
  inspect(subject: TrafficSubject): Promise<TrafficState>
  /** Puts our program on the device, and starts the idle clock where there is none. Frames go on as they went. */
  ensureWatched(subject: TrafficSubject): Promise<void>
  /** Starts the idle clock anew: the guest has just been started. */
  restart(subject: TrafficSubject): Promise<void>
  /** From now on frames are held for the guest, within bounds, and the first that counts is told of. */
  ensureHeld(subject: TrafficSubject): Promise<void>
  /**
   * Gives the guest what was held for it, in order, and lets frames go to the device again; with `deliver` false what was
   * held is dropped. Frames that are older than `limits.heldFrameAgeMs` are dropped too. Where frames flow already it
   * answers zeros.
   */
  ensureFlowing(subject: TrafficSubject, how: { readonly deliver: boolean }): Promise<Delivery>
  /** Forgets the guest; its device may be gone. */
  remove(subject: TrafficSubject): Promise<void>
  /** Calls back when a packet that counts came for a guest whose frames are held. Returns what stops it. */
  watch(onTraffic: (userId: UserId) => void): () => void
}
