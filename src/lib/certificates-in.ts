import { X509Certificate } from 'node:crypto'

/** Returns each certificate of a file (PEM, RFC 7468). */
export const certificatesIn = (pem: Buffer | string): readonly string[] =>
  (typeof pem === 'string' ? pem : pem.toString('latin1')).match(
    /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g,
  ) ?? []

/** Does the same, parsed. Throws an error of OpenSSL if one of them is not a certificate. */
export const parsedCertificatesIn = (pem: Buffer | string): readonly X509Certificate[] =>
  certificatesIn(pem).map((one) => new X509Certificate(one))
