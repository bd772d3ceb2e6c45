/** Whether a value is a whole number and not negative. It may be too large to be exact: counters of bytes are. */
export const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0
