export const MIB = 1024 * 1024

/** Returns a length in whole MiB, rounded up. */
export const mibUp = (bytes: number): number => Math.ceil(bytes / MIB)
