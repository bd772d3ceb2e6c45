/** Returns each certificate of a file (PEM, RFC 7468). */
export const certificatesIn = (pem: Buffer | string): readonly string[] =>
  (typeof pem === 'string' ? pem : pem.toString('latin1')).match(
    /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g,
  ) ?? []
