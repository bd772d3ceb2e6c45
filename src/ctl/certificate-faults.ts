import { X509Certificate } from 'node:crypto'
import type { Profile } from './profile.ts'

/** Extended key usage of a client (RFC 5280, 4.2.1.12: id-kp-clientAuth). */
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'

/** Returns the reasons, as far as this side can see them, why a daemon may refuse the certificate of a profile. */
export function certificateFaults({ ca, cert, files }: Profile, nowMs: number): string[] {
  const faults: string[] = []
  let certificate: X509Certificate
  let authority: X509Certificate
  try {
    certificate = new X509Certificate(cert)
    authority = new X509Certificate(ca)
  } catch {
    return [`${files.cert} or ${files.ca} is no certificate`]
  }
  if (Date.parse(certificate.validTo) < nowMs) faults.push(`${files.cert} ended on ${certificate.validTo}`)
  if (Date.parse(certificate.validFrom) > nowMs)
    faults.push(`${files.cert} begins on ${certificate.validFrom}: is the clock of this machine right?`)
  if (!certificate.checkIssued(authority) || !certificate.verify(authority.publicKey))
    faults.push(`${files.cert} is not signed by ${files.ca}`)
  const { keyUsage: usages } = certificate
  // Node's types say that it is always there; without the extension any use is allowed.
  if (Array.isArray(usages) && !usages.includes(CLIENT_AUTH))
    faults.push(`${files.cert} is not a client's: it lacks the usage clientAuth`)
  return faults
}

/** Returns the common name of a profile's certificate, as the daemon compares it. */
export function commonNameOf({ cert }: Profile): string | undefined {
  try {
    return /^CN=(.*)$/m.exec(new X509Certificate(cert).subject)?.[1]
  } catch {
    return undefined
  }
}
