import { X509Certificate } from 'node:crypto'

/** A block with one of the labels under which OpenSSL, and so TLS, reads a certificate (PEM_read_bio_X509_AUX(3)). */
const BLOCK = /-----BEGIN (?<label>(?:X509 |TRUSTED )?CERTIFICATE)-----[^-]*-----END \k<label>-----/g

/**
 * Returns each certificate of a file (PEM, RFC 7468), as it is there: under each label that TLS takes from the file too,
 * so an authority that it trusts is not missing here.
 */
export const certificatesIn = (pem: Buffer | string): readonly string[] =>
  (typeof pem === 'string' ? pem : pem.toString('latin1')).match(BLOCK) ?? []

/** Does the same, parsed. Throws an error of OpenSSL if one of them is not a certificate. */
export const parsedCertificatesIn = (pem: Buffer | string): readonly X509Certificate[] =>
  certificatesIn(pem).map((one) => new X509Certificate(one))
