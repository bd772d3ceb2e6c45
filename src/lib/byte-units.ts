export const MIB = 1024 * 1024

/** Returns a length in whole MiB, rounded up. */
export const mibUp = (bytes: number): number => Math.ceil(bytes / MIB)

/** Returns a length in MiB, rounded to a tenth. */
export const mibOf = (bytes: number): number => Math.round((bytes / MIB) * 10) / 10
