/** Returns a serial number in lower-case hexadecimal without leading zeros: lists and certificates differ in these. */
export const serialOf = (hex: string): string => hex.toLowerCase().replace(/^0+(?=.)/, '')
