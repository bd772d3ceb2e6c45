// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 needs Reflect.getMetadata when it is loaded
import 'reflect-metadata'
import { Extension, PemConverter, X509Certificate, X509CrlGenerator } from '@peculiar/x509'
import { DAY_MS } from '../../../src/lib/time-units.ts'
import type { CertificatePair } from '../../../src/daemon/setup/certificates.ts'

type ListOptions = {
  /** Days until a newer list is due; negative if that is over. */
  readonly days?: number
  /** Makes it a list for a part of the certificates (RFC 5280, 5.2.5). */
  readonly partial?: true
  /** CRL number (RFC 5280, 5.2.3), up to 127. */
  readonly number?: number
  /** Days since it was made. */
  readonly age?: number
}

const ISSUING_DISTRIBUTION_POINT = '2.5.29.28'
const CRL_NUMBER = '2.5.29.20'
const EMPTY_SEQUENCE = new Uint8Array([0x30, 0x00])

/** Makes a revocation list (PEM) of an authority. */
export async function revoke(
  authority: CertificatePair,
  revoked: readonly CertificatePair[],
  { days = 7, partial, number, age = 30 }: ListOptions = {},
): Promise<string> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' } as const
  const pkcs8 = PemConverter.decodeFirst(authority.key)
  const list = await X509CrlGenerator.create({
    issuer: new X509Certificate(authority.certificate).subjectName,
    thisUpdate: new Date(Date.now() - age * DAY_MS),
    nextUpdate: new Date(Date.now() + days * DAY_MS),
    entries: revoked.map(({ certificate }) => ({
      serialNumber: new X509Certificate(certificate).serialNumber,
      revocationDate: new Date(),
    })),
    signingKey: await crypto.subtle.importKey('pkcs8', pkcs8, algorithm, false, ['sign']),
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    extensions: [
      ...(partial === true ? [new Extension(ISSUING_DISTRIBUTION_POINT, true, EMPTY_SEQUENCE)] : []),
      ...(number === undefined ? [] : [new Extension(CRL_NUMBER, false, new Uint8Array([2, 1, number]))]),
    ],
  })
  return `${list.toString('pem')}\n`
}
