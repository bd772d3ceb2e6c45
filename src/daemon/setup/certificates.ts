// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 needs Reflect.getMetadata when it is loaded
import 'reflect-metadata'
import { isIP } from 'node:net'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Name,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { limits } from '../../config/limits.ts'

/** A certificate and its private key (PKCS #8), both in PEM. */
export type CertificatePair = { readonly certificate: string; readonly key: string }

export type LeafRequest = {
  readonly commonName: string
  /** Names and addresses of this server for its clients; empty for a certificate that is only for a client. */
  readonly alternativeNames: readonly string[]
  readonly usages: readonly ('server' | 'client')[]
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' } as const
const SIGNING = { name: 'ECDSA', hash: 'SHA-256' } as const
const HOUR_MS = 3_600_000

/** Creates a certificate authority that signs only leaf certificates. */
export async function createAuthority(commonName: string, nowMs: number): Promise<CertificatePair> {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: nameOf(commonName),
    keys,
    ...validity(nowMs, limits.authorityValidityDays),
    serialNumber: serialNumber(),
    signingAlgorithm: SIGNING,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return pem(certificate, keys.privateKey)
}

/** Creates a key and a certificate for it, signed by `authority`. */
export async function issueCertificate(
  authority: CertificatePair,
  request: LeafRequest,
  nowMs: number,
): Promise<CertificatePair> {
  const issuer = new X509Certificate(authority.certificate)
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const names = request.alternativeNames.map(
    (value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }) as const,
  )
  const certificate = await X509CertificateGenerator.create({
    subject: nameOf(request.commonName),
    issuer: issuer.subjectName,
    publicKey: keys.publicKey,
    signingKey: await importKey(authority.key),
    ...validity(nowMs, limits.certificateValidityDays),
    serialNumber: serialNumber(),
    signingAlgorithm: SIGNING,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension(
        request.usages.map((usage) =>
          usage === 'server' ? ExtendedKeyUsage.serverAuth : ExtendedKeyUsage.clientAuth,
        ),
      ),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
      await AuthorityKeyIdentifierExtension.create(issuer),
      ...(names.length === 0 ? [] : [new SubjectAlternativeNameExtension(names)]),
    ],
  })
  return pem(certificate, keys.privateKey)
}

/** Builds the name from its value instead of parsing it: quotes and commas in it are ordinary characters. */
const nameOf = (commonName: string): Name => new Name([{ CN: [{ utf8String: commonName }] }])

/** Begins an hour early, for peers whose clock is behind. */
const validity = (nowMs: number, days: number) => ({
  notBefore: new Date(nowMs - HOUR_MS),
  notAfter: new Date(nowMs + days * 24 * HOUR_MS),
})

/** Returns 127 random bits: positive and at most 20 octets (RFC 5280, 4.1.2.2). */
function serialNumber(): string {
  const bytes = crypto.getRandomValues(Buffer.alloc(16))
  bytes.writeUInt8((bytes.readUInt8(0) & 0x7f) | 0x40, 0)
  return bytes.toString('hex')
}

async function pem(certificate: X509Certificate, key: CryptoKey): Promise<CertificatePair> {
  const pkcs8 = await crypto.subtle.exportKey('pkcs8', key)
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: `${PemConverter.encode(pkcs8, PemConverter.PrivateKeyTag)}\n`,
  }
}

async function importKey(keyPem: string): Promise<CryptoKey> {
  return crypto.subtle.importKey('pkcs8', PemConverter.decodeFirst(keyPem), ALGORITHM, false, ['sign'])
}
