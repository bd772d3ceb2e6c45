// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 needs Reflect.getMetadata when it is loaded
import 'reflect-metadata'
import {
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  PemConverter,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'
import type { CertificatePair } from '../../../src/daemon/setup/certificates.ts'

type Request = {
  /** Common names of the subject, each in a part of its own. */
  readonly names: readonly string[]
  /** Hexadecimal; a random one if absent. */
  readonly serialNumber?: string
}

/**
 * Makes a client's certificate as set-up never makes one: with several common names,
 * or a serial number of the test's choice.
 */
export async function oddCertificate(
  authority: CertificatePair,
  { names, ...serial }: Request,
): Promise<CertificatePair> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' } as const
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const pkcs8 = PemConverter.decodeFirst(authority.key)
  const certificate = await X509CertificateGenerator.create({
    ...serial,
    subject: names.map((name) => ({ CN: [name] })),
    issuer: new X509Certificate(authority.certificate).subjectName,
    publicKey: keys.publicKey,
    signingKey: await crypto.subtle.importKey('pkcs8', pkcs8, algorithm, false, ['sign']),
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    notAfter: new Date(Date.now() + 3_600_000),
    extensions: [new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth])],
  })
  const key = PemConverter.encode(
    await crypto.subtle.exportKey('pkcs8', keys.privateKey),
    PemConverter.PrivateKeyTag,
  )
  return { certificate: certificate.toString('pem'), key }
}
