const IPV4_BYTES = 4
const IPV6_BYTES = 16

/**
 * Returns the bytes of an address in network order, 4 or 16 of them; undefined if `text` is not one. As strict as
 * inet_pton(3).
 */
export function parseAddress(text: string): Uint8Array | undefined {
  return text.includes(':') ? parseIpv6(text) : parseIpv4(text)
}

/** Returns the one text of an address: dotted decimal, or RFC 5952, the form that inet_ntop(3) and `ip` print. */
export function formatAddress(bytes: Uint8Array): string {
  return bytes.length === IPV4_BYTES ? bytes.join('.') : formatIpv6(bytes)
}

/**
 * Returns the canonical text of an address, so that equal addresses are equal strings; undefined if `text` is not one.
 */
export function canonicalAddress(text: string): string | undefined {
  const bytes = parseAddress(text)
  return bytes === undefined ? undefined : formatAddress(bytes)
}

function parseIpv4(text: string): Uint8Array | undefined {
  const parts = text.split('.')
  if (parts.length !== IPV4_BYTES) return undefined
  // A leading zero is refused: some programs read such a number as octal.
  if (!parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) <= 255)) return undefined
  return Uint8Array.from(parts, Number)
}

function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split('::')
  if (halves.length > 2) return undefined
  const head = parseGroups(halves[0] ?? '', halves.length === 1)
  const tail = parseGroups(halves[1] ?? '', true)
  if (head === undefined || tail === undefined) return undefined
  const zeros = IPV6_BYTES - head.length - tail.length
  // `::` stands for at least one group.
  if (halves.length === 1 ? zeros !== 0 : zeros < 2) return undefined
  return Uint8Array.from([...head, ...Array<number>(zeros).fill(0), ...tail])
}

/**
 * Returns the bytes of groups joined by colons. If the text ends the whole address, the last group may be an IPv4
 * address.
 */
function parseGroups(text: string, last: boolean): readonly number[] | undefined {
  if (text === '') return []
  const bytes: number[] = []
  const groups = text.split(':')
  for (const [index, group] of groups.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(group)) {
      const value = Number.parseInt(group, 16)
      bytes.push(value >> 8, value & 0xff)
      continue
    }
    const ipv4 = last && index === groups.length - 1 ? parseIpv4(group) : undefined
    if (ipv4 === undefined) return undefined
    bytes.push(...ipv4)
  }
  return bytes
}

function formatIpv6(bytes: Uint8Array): string {
  const groups = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0))
  const isIpv4Mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (isIpv4Mapped) return `::ffff:${bytes.subarray(12).join('.')}`
  const { start, length } = longestZeroRun(groups)
  const hex = groups.map((group) => group.toString(16))
  if (length < 2) return hex.join(':')
  return `${hex.slice(0, start).join(':')}::${hex.slice(start + length).join(':')}`
}

/** Returns the first of the longest runs of zero groups (RFC 5952, 4.2.3). */
function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 }
  let start = 0
  for (const [index, group] of groups.entries()) {
    if (group !== 0) start = index + 1
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start }
  }
  return best
}
