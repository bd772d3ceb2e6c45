import { limits } from '../../config/limits.ts'

/**
 * Returns the seconds of `Prefer: wait=N` (RFC 7240, 4.3), at most `limits.waitSecondsMax`; undefined without it. A
 * preference that cannot be read is ignored: this header never makes a request fail (RFC 7240, 2).
 */
export function preferredWaitSeconds(header: string | undefined): number | undefined {
  const [, seconds] = /(?:^|[,;])\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:$|[,;])/i.exec(header ?? '') ?? []
  return seconds === undefined ? undefined : Math.min(Number(seconds), limits.waitSecondsMax)
}
