import type { X509Certificate } from 'node:crypto'
import type { RevocationList } from './revocation-list.ts'

/**
 * Returns why these lists must not replace the previous ones: an authority that is still trusted has no list in them,
 * or an older one. Undefined if they may. Such a file was shortened, or put back from a copy, and would let in what is
 * revoked.
 */
export function whyNotReplaced(
  previous: readonly RevocationList[],
  next: readonly RevocationList[],
  authorities: readonly X509Certificate[],
): string | undefined {
  for (const list of previous) {
    const { authority, issuer } = list
    if (!authorities.some((one) => isSameAuthority(one, authority))) continue
    const successors = next.filter((one) => isSameAuthority(one.authority, authority))
    if (successors.length === 0) return `there is no list of ${issuer} in it any more, which is still trusted`
    if (successors.every((one) => isOlder(one, list)))
      return `the list of ${issuer} in it is older than the one in use`
  }
  return undefined
}

/** Returns the names of the authorities that none of these lists is of. */
export const issuersWithoutList = (
  lists: readonly RevocationList[],
  authorities: readonly X509Certificate[],
): readonly string[] =>
  authorities
    .filter((one) => !lists.some(({ authority }) => isSameAuthority(one, authority)))
    .map(({ subject }) => subject)

/** An authority may have several certificates for one key. */
const isSameAuthority = (one: X509Certificate, other: X509Certificate): boolean =>
  one.subject === other.subject && one.publicKey.equals(other.publicKey)

/** The number decides if both have one: it rises also when the clock of the authority is put back. */
function isOlder(one: RevocationList, other: RevocationList): boolean {
  if (one.number !== undefined && other.number !== undefined && one.number !== other.number)
    return one.number < other.number
  return one.thisUpdateMs < other.thisUpdateMs
}
