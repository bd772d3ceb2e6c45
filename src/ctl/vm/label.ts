import { usageError } from '../ctl-error.ts'

/** Parses `KEY=VALUE`. Throws a usage error. */
export function parseLabel(text: string, what: string): readonly [key: string, value: string] {
  const [, key, value] = /^([^=,]+)=([^=,]*)$/.exec(text) ?? []
  if (key === undefined || value === undefined) throw usageError(`${what} ${text} is no KEY=VALUE`)
  return [key, value]
}
