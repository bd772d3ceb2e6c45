import type { X509Certificate } from 'node:crypto'
import type { TLSSocket } from 'node:tls'

/** The certificate of a peer, in the words of the log. */
export type PeerCertificate = {
  /** Undefined if it has no common name or several, because we must not guess which one is meant. */
  readonly certificate_name: string | undefined
  /** In the form of {@link serialOf}. */
  readonly certificate_serial: string | undefined
}

type Shown = Partial<ReturnType<TLSSocket['getPeerCertificate']>>

/** Returns which certificate a peer has shown. Whether it is trusted is for the handshake to say. */
export function peerCertificate(socket: TLSSocket): PeerCertificate {
  // Null once the connection is gone, which its type does not say.
  const shown: Shown | null = socket.getPeerCertificate()
  const name: unknown = shown?.subject?.CN
  const serialNumber = shown?.serialNumber
  return {
    certificate_name: typeof name === 'string' ? name : undefined,
    certificate_serial: typeof serialNumber === 'string' ? serialOf(serialNumber) : undefined,
  }
}

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

/**
 * Returns a serial number in the one form in which this program shows and compares it: that of `openssl x509 -serial`,
 * upper-case hexadecimal with an even number of digits. Lists, certificates and their libraries differ in these.
 */
export function serialOf(hex: string): string {
  const digits = hex.toUpperCase().replace(/^0+(?=.)/, '')
  return digits.length % 2 === 0 ? digits : `0${digits}`
}
