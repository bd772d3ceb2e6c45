import type { X509Certificate } from 'node:crypto'
import type { TLSSocket } from 'node:tls'

/** Returns the peer's certificate, and those that it sent with it. */
export function certificatesSent(socket: TLSSocket): readonly X509Certificate[] {
  const sent: X509Certificate[] = []
  let one = socket.getPeerX509Certificate()
  while (one !== undefined && sent.length < SENT_MAX) {
    sent.push(one)
    one = one.issuerCertificate
  }
  return sent
}

/** OpenSSL takes 100 KiB of certificates (`SSL_CTX_set_max_cert_list`), which cannot be so many. */
const SENT_MAX = 1024

/**
 * Returns these certificates and those of `candidates` that are above one of them. A client need not send an authority
 * that is in `ca_file`, and may send certificates that have nothing to do with its own.
 */
export function withIssuers(
  certificates: readonly X509Certificate[],
  candidates: readonly X509Certificate[],
): readonly X509Certificate[] {
  const chain = [...certificates]
  const left = new Set(candidates)
  // The list grows while it is read.
  for (const one of chain)
    for (const candidate of left)
      if (isIssuedBy(one, candidate)) {
        left.delete(candidate)
        chain.push(candidate)
      }
  return chain
}

/** Returns whether an authority signed a certificate. */
export const isIssuedBy = (one: X509Certificate, authority: X509Certificate): boolean =>
  one.checkIssued(authority) && one.verify(authority.publicKey)
