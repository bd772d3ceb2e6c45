/** Whether a value that was parsed is an object with members, and not an array. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether a value is a whole number and not negative. It may be too large to be exact: counters of bytes are. */
export const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0
