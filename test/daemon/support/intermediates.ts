// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 needs Reflect.getMetadata when it is loaded
import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { DAY_MS } from '../../../src/lib/time-units.ts'
import type { CertificatePair } from '../../../src/daemon/setup/certificates.ts'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' } as const

/** Makes an authority: at the root, or signed by `above`. Set-up makes only authorities that sign no others. */
export async function makeAuthority(commonName: string, above?: CertificatePair): Promise<CertificatePair> {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const name = `CN=${commonName}`
  const signingKey =
    above === undefined
      ? keys.privateKey
      : await crypto.subtle.importKey('pkcs8', PemConverter.decodeFirst(above.key), ALGORITHM, false, [
          'sign',
        ])
  const certificate = await X509CertificateGenerator.create({
    subject: name,
    issuer: above === undefined ? name : new X509Certificate(above.certificate).subjectName,
    publicKey: keys.publicKey,
    signingKey,
    notBefore: new Date(Date.now() - DAY_MS),
    notAfter: new Date(Date.now() + 30 * DAY_MS),
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  const pkcs8 = await crypto.subtle.exportKey('pkcs8', keys.privateKey)
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: `${PemConverter.encode(pkcs8, PemConverter.PrivateKeyTag)}\n`,
  }
}
