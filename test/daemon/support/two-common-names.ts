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

/** A client certificate with several common names, which our set-up never makes. */
export async function twoCommonNames(
  authority: CertificatePair,
  names: readonly string[],
): Promise<CertificatePair> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' } as const
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const pkcs8 = PemConverter.decodeFirst(authority.key)
  const certificate = await X509CertificateGenerator.create({
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
