import { limits } from '../config/limits.ts'
import { usageError } from './ctl-error.ts'

const MIB_OF = { '': 1, k: 1 / 1024, m: 1, g: 1024, t: 1024 * 1024 } as const
const SECONDS_OF = { '': 1, s: 1, m: 60, h: 3600, d: 86_400 } as const

/** Parses `512`, `512M`, `1.5G` or `2GiB` to MiB. `what` names the option. Throws a usage error. */
export function parseMib(text: string, what: string): number {
  const [, digits = '', unit = ''] = /^(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$/i.exec(text) ?? []
  const mib = Number(digits) * MIB_OF[unit.toLowerCase() as keyof typeof MIB_OF]
  if (digits !== '' && Number.isSafeInteger(mib)) return mib
  throw usageError(`${what} ${text} is not a size in whole MiB`, 'write 512, 512M or 2G')
}

/** Parses CPU cores, `0.5` or `2`, to millicores. Throws a usage error. */
export function parseCores(text: string, what: string): number {
  const millicores = /^\d+(\.\d{1,3})?$/.test(text) ? Math.round(Number(text) * 1000) : Number.NaN
  if (Number.isSafeInteger(millicores)) return millicores
  throw usageError(`${what} ${text} is not a number of cores`, 'write 2, 1.5 or 0.25')
}

/** Parses `90`, `90s`, `10m`, `2h` or `1d` to seconds. Throws a usage error. */
export function parseSeconds(text: string, what: string): number {
  const [, digits = '', unit = ''] = /^(\d+)([smhd]?)$/i.exec(text) ?? []
  const seconds = Number(digits) * SECONDS_OF[unit.toLowerCase() as keyof typeof SECONDS_OF]
  if (digits === '') throw usageError(`${what} ${text} is not a time`, 'write 90, 90s, 10m or 2h')
  if (seconds <= limits.ctlTimeDaysMax * SECONDS_OF.d) return seconds
  throw usageError(`${what} ${text} is longer than a time can be`, `write at most ${limits.ctlTimeDaysMax}d`)
}

/** Parses the time that a wait may take, to milliseconds. Throws a usage error. */
export function parseTimeoutMs(text: string, what: string): number {
  const seconds = parseSeconds(text, what)
  if (seconds <= limits.ctlWaitDaysMax * SECONDS_OF.d) return seconds * 1000
  throw usageError(`${what} ${text} is longer than a wait can be`, `write at most ${limits.ctlWaitDaysMax}d`)
}
