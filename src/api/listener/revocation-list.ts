// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 needs Reflect.getMetadata when it is loaded
import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import { serialOf } from './serial.ts'
import { PemConverter, X509Certificate as Certificate, X509Crl } from '@peculiar/x509'

/** The revoked certificates of one authority. */
export type RevocationList = {
  readonly authority: X509Certificate
  /** In the form of {@link serialOf}. */
  readonly serials: ReadonlySet<string>
  /** When the next list is due; absent if the list does not say. */
  readonly nextUpdateMs?: number
}

/** Words of such a block in PEM: those of RFC 7468 and OpenSSL, and those of other programs. */
const LABELS: ReadonlySet<string> = new Set(['X509 CRL', 'CRL'])

/**
 * Reads all lists of a file (PEM, RFC 7468). Each must be complete, and signed by one of the authorities (PEM). Throws
 * an error that says which list cannot be used.
 */
export async function parseRevocationLists(
  text: string,
  authorities: readonly string[],
): Promise<readonly RevocationList[]> {
  const blocks = PemConverter.decodeWithHeaders(text).filter(({ type }) => LABELS.has(type))
  if (blocks.length === 0) throw new Error('there is not a block "X509 CRL" in it')
  return Promise.all(blocks.map(({ rawData }) => readList(new X509Crl(rawData), authorities)))
}

async function readList(list: X509Crl, authorities: readonly string[]): Promise<RevocationList> {
  const special = list.extensions.find(({ critical }) => critical)
  if (special !== undefined)
    throw new Error(`the list of ${list.issuer} is for a part of the certificates (${special.type})`)
  const { nextUpdate } = list
  return {
    authority: await signerOf(list, authorities),
    serials: new Set(list.entries.map(({ serialNumber }) => serialOf(serialNumber))),
    ...(nextUpdate === undefined ? {} : { nextUpdateMs: nextUpdate.getTime() }),
  }
}

async function signerOf(list: X509Crl, authorities: readonly string[]): Promise<X509Certificate> {
  for (const pem of authorities) {
    const authority = new Certificate(pem)
    const isNamed = Buffer.from(authority.subjectName.toArrayBuffer()).equals(
      Buffer.from(list.issuerName.toArrayBuffer()),
    )
    if (isNamed && (await list.verify({ publicKey: authority }))) return new X509Certificate(pem)
  }
  throw new Error(`the list of ${list.issuer} is not signed by an authority that is trusted here`)
}
