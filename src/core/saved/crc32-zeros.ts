/** The polynomial of CRC-32 as in gzip and PNG (RFC 1952, section 8), with the lowest power in the highest bit. */
const POLYNOMIAL = 0xedb8_8320
/** The polynomial x^0, in that order of bits. */
const ONE = 0x8000_0000
/** The polynomial x^8, by which one byte moves a CRC. */
const BYTE = ONE >>> 8

/**
 * Returns the CRC-32 of data followed by `count` zeros, from the CRC-32 of the data. So the hole of a file costs a few
 * hundred steps, however long it is. A zero byte multiplies the register by x^8 modulo the polynomial; the register is
 * the inverted CRC.
 */
export function crc32AfterZeros(crc: number, count: number): number {
  let factor = ONE
  let square = BYTE
  // By division, because a file may have more bytes than an operator on bits can count.
  for (let left = count; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) factor = multiply(factor, square)
    square = multiply(square, square)
  }
  return ~multiply(~crc >>> 0, factor) >>> 0
}

/** Multiplies two polynomials over GF(2), modulo that of CRC-32. */
function multiply(a: number, b: number): number {
  let product = 0
  let shifted = b
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if ((a & bit) !== 0) product ^= shifted
    shifted = (shifted & 1) === 0 ? shifted >>> 1 : (shifted >>> 1) ^ POLYNOMIAL
  }
  return product >>> 0
}
