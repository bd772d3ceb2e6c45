import type { Delivery } from '../idle/traffic-state.ts'

/**
 * Why a sleeping VM is woken: traffic for it, a request for power, an ssh console, an idle timeout of 0, or a change that
 * needs the guest.
 */
export type WakeReason = 'traffic' | 'power' | 'console' | 'sleep_disabled' | 'change'

/** A wake that was asked for or has begun, and is not over; on record, so that it outlives the daemon. */
export type PendingWake = {
  readonly reason: WakeReason
  readonly atMs: number
  /** Of what is restored. Absent: it was asked for, and has not begun. */
  readonly savedAtMs?: number
  /** From before a unit is started to restore it: until then the guest is still in the unit that saved it, if in any. */
  readonly restores?: true
  /** What was given to the guest, and when. */
  readonly delivery?: Delivery & { readonly atMs: number }
}

/** The last wake that is over. */
export type LastWake = Pick<PendingWake, 'reason' | 'atMs'> & {
  /** From `atMs` until the guest ran and had what was held for it. */
  readonly durationMs: number
  /** Packets that came meanwhile and were given to the guest. */
  readonly heldPackets: number
  /** Packets that came meanwhile and were dropped, past the bounds of what is held. */
  readonly droppedPackets: number
}
