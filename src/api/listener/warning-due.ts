import { limits } from '../../config/limits.ts'

/**
 * Returns whether a warning that is repeated daily is due. It is also due if the last one was in a time that is far
 * from reached: the clock was ahead then.
 */
export const isWarningDue = (lastMs = -Infinity, nowMs: number): boolean =>
  Math.abs(nowMs - lastMs) >= limits.certificateWarnEveryMs
