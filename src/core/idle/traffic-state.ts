import type { DeviceName, UserId } from '../vm/ids.ts'

/** Whose traffic: the kernel's program knows a VM by its user id, and finds it by the device a frame goes out of. */
export type TrafficSubject = { readonly device: DeviceName; readonly userId: UserId }

/**
 * What the program on a VM's tap saw of traffic from host to guest. Only unicast IPv4 and IPv6 counts, without TCP RST,
 * ICMP errors, and what the host is configured to ignore.
 */
export type TrafficState =
  /** No device, or our program is not on it: nothing is known of the guest's traffic. */
  | { readonly kind: 'unwatched' }
  | {
      readonly kind: 'watched'
      /** Frames go to the device (`flowing`), or are kept for the guest until it is back (`held`). */
      readonly frames: 'flowing' | 'held'
      /** Packets that counted, ever; tells whether there were any since it was read. */
      readonly packets: number
      /** Since the last packet that counted, or the last `restart` of the clock, whichever was later. */
      readonly idleMs: number
      /** Of the last packet that counted. Absent: none yet. */
      readonly lastTrafficAtMs?: number
      /** Frames held now. */
      readonly heldFrames: number
      /** When the first packet that counted came since frames are held: the guest is wanted. */
      readonly wantedSinceMs?: number
    }

export type WatchedTraffic = Extract<TrafficState, { readonly kind: 'watched' }>

export const areHeld = (traffic: TrafficState): boolean =>
  traffic.kind === 'watched' && traffic.frames === 'held'

/** What became of frames that were held. */
export type Delivery = { readonly delivered: number; readonly dropped: number }
