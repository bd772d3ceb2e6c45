import { X509Certificate } from 'node:crypto'

/** A block with one of the labels under which OpenSSL, and so TLS, reads a certificate (PEM_read_bio_X509_AUX(3)). */
const BLOCK = /-----BEGIN (?<label>(?:X509 |TRUSTED )?CERTIFICATE)-----[^-]*-----END \k<label>-----/g

/**
 * Returns each certificate of a file (PEM, RFC 7468), as it is there: under each label that TLS takes from the file
 * too, so an authority that it trusts is not missing here.
 */
export const certificatesIn = (pem: Buffer | string): readonly string[] =>
  (typeof pem === 'string' ? pem : pem.toString('latin1')).match(BLOCK) ?? []

/** Does the same, parsed. Throws an error of OpenSSL if one of them is not a certificate. */
export const parsedCertificatesIn = (pem: Buffer | string): readonly X509Certificate[] =>
  certificatesIn(pem).map((one) => new X509Certificate(one))

/** Returns the name of a subject or an issuer in one line: node:crypto puts each part of it on a line of its own. */
export const nameInOneLine = (name: string): string => name.replaceAll('\n', ', ')

/** The extended key usages of TLS (RFC 5280, 4.2.1.12). */
const USAGES = {
  server: { name: 'serverAuth', oid: '1.3.6.1.5.5.7.3.1' },
  client: { name: 'clientAuth', oid: '1.3.6.1.5.5.7.3.2' },
} as const

/** A side of a connection for which a certificate may be used. */
type CertificateUsage = keyof typeof USAGES

/** Returns the usages that a certificate has. */
export function usagesOf({ keyUsage }: X509Certificate): readonly CertificateUsage[] {
  // Undefined without this extension, which its type does not say: then it has every usage.
  const present: readonly string[] | undefined = keyUsage
  return (['server', 'client'] as const).filter(
    (usage) => present === undefined || present.includes(USAGES[usage].oid),
  )
}

/** Returns the name of each of these usages that a certificate lacks, such as `clientAuth`. */
export function lackingUsages(
  certificate: X509Certificate,
  wanted: readonly CertificateUsage[],
): readonly string[] {
  const present = usagesOf(certificate)
  return wanted.filter((usage) => !present.includes(usage)).map((usage) => USAGES[usage].name)
}

/** Returns the one common name of a certificate; undefined if it has none or several, as for a peer. */
export function commonNameOf(certificate: X509Certificate): string | undefined {
  const name: unknown = certificate.toLegacyObject().subject.CN
  return typeof name === 'string' ? name : undefined
}
