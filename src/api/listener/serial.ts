/**
 * Returns a serial number in the one form in which this program shows and compares it: that of `openssl x509 -serial`, upper-case
 * hexadecimal with an even number of digits. Lists, certificates and their libraries differ in these.
 */
export function serialOf(hex: string): string {
  const digits = hex.toUpperCase().replace(/^0+(?=.)/, '')
  return digits.length % 2 === 0 ? digits : `0${digits}`
}
