import type { Delivery } from '../world/traffic-state.ts'

/**
 * The reason to wake a sleeping VM: traffic for it, a request for power, an ssh console, an idle timeout of 0, or a
 * change that needs the guest.
 */
export type WakeReason = 'traffic' | 'power' | 'console' | 'sleep_disabled' | 'change'

/** A wake that was requested or has begun, and has not ended. It is on record, so it outlives the daemon. */
export type PendingWake = {
  readonly reason: WakeReason
  readonly atMs: number
  /** When the restored guest was saved. Absent: the wake was requested, and has not begun. */
  readonly savedAtMs?: number
  /** Set before a unit is started to restore the guest. Until then, only the unit that saved the guest can have it. */
  readonly restores?: true
  /** The frames that were delivered to the guest, and when. */
  readonly delivery?: Delivery & { readonly atMs: number }
}

/** The last wake that has ended. */
export type LastWake = Pick<PendingWake, 'reason' | 'atMs'> & {
  /** From `atMs` until the guest ran and had its held frames. */
  readonly durationMs: number
  /** Packets that came during the wake and were delivered to the guest. */
  readonly heldPackets: number
  /** Packets that came during the wake and were dropped, because they exceeded the bounds of held frames. */
  readonly droppedPackets: number
}
