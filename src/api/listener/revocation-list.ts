// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 needs Reflect.getMetadata when it is loaded
import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import { serialOf } from './peer-chain.ts'
import { PemConverter, X509Certificate as Certificate, X509Crl } from '@peculiar/x509'
import { given } from '../../lib/given.ts'

/** The revoked certificates of one authority. */
export type RevocationList = {
  readonly authority: X509Certificate
  /** The authority's name, as messages show it: `CN=vmhostd authority`. */
  readonly issuer: string
  /** In the form of {@link serialOf}. */
  readonly serials: ReadonlySet<string>
  /** Rises with each list of an authority (CRL number; RFC 5280, 5.2.3); absent if the list does not say. */
  readonly number?: bigint
  readonly thisUpdateMs: number
  /** When the next list is due; absent if the list does not say. */
  readonly nextUpdateMs?: number
}

/** Content of a file of lists. */
export type RevocationLists = {
  readonly lists: readonly RevocationList[]
  /** Names of other authorities with a list, which are not trusted here. Their lists can revoke nothing. */
  readonly foreignIssuers: readonly string[]
}

/** Words of such a block in PEM: those of RFC 7468 and OpenSSL, and those of other programs. */
const LABELS: ReadonlySet<string> = new Set(['X509 CRL', 'CRL'])

/** A block of any kind, from its first line to its last one. */
const WHOLE_BLOCK = /^\s*-----BEGIN ([^-\n]+)-----(?:(?!-----)[\s\S])*-----END \1-----[^\S\n]*$/gm

const CRL_NUMBER = '2.5.29.20'

/**
 * Reads all lists of a file (PEM, RFC 7468). Each must be complete, and those of trusted authorities (PEM) signed by
 * them. There must be at least one of these. Throws an error that says what cannot be used.
 */
export async function parseRevocationLists(
  text: string,
  authorities: readonly string[],
): Promise<RevocationLists> {
  // The decoder passes over a block that has no end, and with it over all that the list revokes.
  if (/^\s*-/m.test(text.replaceAll('\r', '').replaceAll(WHOLE_BLOCK, '')))
    throw new Error('a block in it has no end, or no beginning: it is not whole')
  const blocks = PemConverter.decodeWithHeaders(text).filter(({ type }) => LABELS.has(type))
  if (blocks.length === 0) throw new Error('there is not a block "X509 CRL" in it')
  const trusted = authorities.map((pem) => new Certificate(pem))
  const own: X509Crl[] = []
  const foreign: X509Crl[] = []
  for (const { rawData } of blocks) {
    const list = new X509Crl(rawData)
    if (trusted.some((authority) => hasName(list, authority))) own.push(list)
    else foreign.push(list)
  }
  if (own.length === 0) throw new Error('there is no list of an authority that is trusted here in it')
  return {
    lists: await Promise.all(own.map((list) => readList(list, trusted))),
    foreignIssuers: foreign.map(({ issuer }) => issuer),
  }
}

async function readList(list: X509Crl, trusted: readonly Certificate[]): Promise<RevocationList> {
  const special = list.extensions.find(({ critical }) => critical)
  if (special !== undefined)
    throw new Error(`the list of ${list.issuer} is for a part of the certificates (${special.type})`)
  const { issuer, thisUpdate, nextUpdate } = list
  const number = numberOf(list)
  return {
    authority: await signerOf(list, trusted),
    issuer,
    serials: new Set(list.entries.map(({ serialNumber }) => serialOf(serialNumber))),
    thisUpdateMs: thisUpdate.getTime(),
    ...given({ number }),
    ...(nextUpdate === undefined ? {} : { nextUpdateMs: nextUpdate.getTime() }),
  }
}

async function signerOf(list: X509Crl, trusted: readonly Certificate[]): Promise<X509Certificate> {
  for (const authority of trusted)
    if (hasName(list, authority) && (await list.verify({ publicKey: authority })))
      return new X509Certificate(Buffer.from(authority.rawData))
  throw new Error(`the list of ${list.issuer} is not signed by it, as it is trusted here`)
}

const hasName = (list: X509Crl, authority: Certificate): boolean =>
  Buffer.from(authority.subjectName.toArrayBuffer()).equals(Buffer.from(list.issuerName.toArrayBuffer()))

/** Returns the content of the extension: an INTEGER of at most 20 octets, in DER a tag, a length and these octets. */
function numberOf(list: X509Crl): bigint | undefined {
  const extension = list.extensions.find(({ type }) => type === CRL_NUMBER)
  if (extension === undefined) return undefined
  return BigInt(`0x${Buffer.from(extension.value).subarray(2).toString('hex') || '0'}`)
}
