import { given } from '../../lib/given.ts'
import { owesStop } from './record.ts'
import type { VmRecord } from './record.ts'

/** A stop to accept; without a time it is hard. */
export type Stop = { readonly graceUntilMs?: number }

/** How a guest is to be stopped. 0, or nothing, is a hard stop. */
export type StopTerms = { readonly graceSeconds?: number }

/**
 * Returns the stop that a request asks for. A request never softens a stop that is under way: a hard stop stays hard,
 * and of two times the earlier one holds.
 */
export function stopOf({ stops, ...record }: VmRecord, { graceSeconds = 0 }: StopTerms, nowMs: number): Stop {
  const graceUntilMs = graceSeconds === 0 ? undefined : nowMs + graceSeconds * 1000
  if (!owesStop({ ...record, stops })) return given({ graceUntilMs })
  if (graceUntilMs === undefined || stops.grace === undefined) return {}
  return { graceUntilMs: Math.min(graceUntilMs, stops.grace.untilMs) }
}

/** Returns whether a stop differs from the one that is under way, if one is. */
export const isNewStop = (record: VmRecord, { graceUntilMs }: Stop): boolean =>
  !owesStop(record) || graceUntilMs !== record.stops.grace?.untilMs
