import type { DeviceName, UserId } from '../ids.ts'

/**
 * Names whose traffic is meant. The kernel's program knows a VM by its user id, and finds the VM by the outgoing device
 * of a frame.
 */
export type TrafficSubject = { readonly device: DeviceName; readonly userId: UserId }

/**
 * Describes the host-to-guest traffic that the program on a VM's tap has seen. Only unicast IPv4 and IPv6 counts,
 * without TCP RST, ICMP errors, and what the host is configured to ignore.
 */
export type TrafficState =
  /** The device does not exist, or our program is not on it: nothing is known of the guest's traffic. */
  | { readonly kind: 'unwatched' }
  | {
      readonly kind: 'watched'
      /** `flowing`: frames go to the device. `held`: frames are kept until the guest is back. */
      readonly frames: 'flowing' | 'held'
      /** All packets that ever counted. A reader compares two values to see whether any packet came in between. */
      readonly packets: number
      /**
       * Milliseconds since the last packet that counted, or since the last `restart` of the clock, whichever was later.
       */
      readonly idleMs: number
      /** Time of the last packet that counted; absent if there was none yet. */
      readonly lastTrafficAtMs?: number
      /** Number of frames held now. */
      readonly heldFrames: number
      /** Time of the first packet that counted since frames are held: from then on the guest is wanted. */
      readonly wantedSinceMs?: number
    }

export type WatchedTraffic = Extract<TrafficState, { readonly kind: 'watched' }>

export const areHeld = (traffic: TrafficState): boolean =>
  traffic.kind === 'watched' && traffic.frames === 'held'

/** Counts what happened to the frames that were held. */
export type Delivery = { readonly delivered: number; readonly dropped: number }
