// oxlint-disable-next-line import/no-unassigned-import -- @peculiar/x509 needs Reflect.getMetadata when it is loaded
import 'reflect-metadata'
import { createPrivateKey, X509Certificate as NodeCertificate } from 'node:crypto'
import { isIP, isIPv6 } from 'node:net'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  Extension,
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
import { parseAddress } from '../../core/network/address.ts'
import { SetupError } from './setup-report.ts'
import { signingAlgorithm } from './signing-algorithm.ts'
import { nameInOneLine } from '../../lib/certificates.ts'
import { DAY_MS } from '../../lib/time-units.ts'

/** A certificate and its private key, both in PEM. The keys that are made here are PKCS #8. */
export type CertificatePair = { readonly certificate: string; readonly key: string }

export type LeafRequest = {
  readonly commonName: string
  /** Names and addresses of this server for its clients; empty for a certificate that is only for a client. */
  readonly alternativeNames: readonly string[]
  readonly usages: readonly ('server' | 'client')[]
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' } as const
const SIGNING = { name: 'ECDSA', hash: 'SHA-256' } as const

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
  const uses = request.usages.map((usage) =>
    usage === 'server' ? ExtendedKeyUsage.serverAuth : ExtendedKeyUsage.clientAuth,
  )
  const extensions = [
    new ExtendedKeyUsageExtension(uses),
    ...(request.alternativeNames.length === 0 ? [] : [namesExtension(request.alternativeNames)]),
  ]
  return issue(authority, { subject: nameOf(request.commonName), extensions }, nowMs)
}

const namesExtension = (names: readonly string[]): Extension =>
  new SubjectAlternativeNameExtension(
    names.map((name) => ({ type: isIP(name) === 0 ? 'dns' : 'ip', value: inGroups(name) }) as const),
  )

/** Returns an IPv6 address as eight groups, because the library takes an IPv4 address at its end for one group. */
function inGroups(name: string): string {
  const bytes = isIPv6(name) ? parseAddress(name) : undefined
  return bytes === undefined
    ? name
    : Buffer.from(bytes)
        .toString('hex')
        .replaceAll(/.{4}(?=.)/g, '$&:')
}

/** Returns which of these names and addresses of a server a certificate does not have. */
export const namesLackingIn = (
  certificate: Pick<NodeCertificate, 'checkHost' | 'checkIP'>,
  names: readonly string[],
): readonly string[] =>
  names.filter(
    (name) => (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) === undefined,
  )

/**
 * Creates a key and a certificate for it with the names and uses of an old one and `addedNames`, signed by `authority`.
 * The old ones are copied as they are encoded, so none of any kind is lost. {@link whyNotReissued} says beforehand
 * whether something else would be.
 */
export async function reissueCertificate(
  authority: CertificatePair,
  old: LeafToReplace,
  { nowMs, addedNames = [] }: { readonly nowMs: number; readonly addedNames?: readonly string[] },
): Promise<CertificatePair> {
  const { subjectName: subject, extensions } = new X509Certificate(Buffer.from(old.raw))
  const kept = extensions.filter(({ type }) => KEPT.has(type))
  return issue(authority, { subject, extensions: withNames(kept, addedNames) }, nowMs)
}

function withNames(extensions: readonly Extension[], names: readonly string[]): readonly Extension[] {
  if (names.length === 0) return extensions
  const added = namesExtension(names)
  const old = extensions.find(({ type }) => type === added.type)
  if (old === undefined) return [...extensions, added]
  const value = sequence(contentOf(old.value), contentOf(added.value))
  return extensions.map((one) => (one === old ? new Extension(old.type, old.critical, value) : one))
}

/** Returns the content of a value in DER (X.690, 8.1): what follows its tag and its length. */
function contentOf(der: ArrayBuffer): Buffer {
  const bytes = Buffer.from(der)
  const first = bytes.readUInt8(1)
  return bytes.subarray(first < 0x80 ? 2 : 2 + (first & 0x7f))
}

/** Returns a SEQUENCE of these contents in DER. */
function sequence(...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([0x30, ...head]), content])
}

/** A certificate that node:crypto has read. */
export type LeafToReplace = Pick<NodeCertificate, 'raw' | 'ca'>

/** Returns what {@link reissueCertificate} cannot keep of a certificate; undefined if there is nothing. */
export function whyNotReissued(old: LeafToReplace): string | undefined {
  if (old.ca) return 'it is an authority itself'
  const { extensions } = new X509Certificate(Buffer.from(old.raw))
  const lost = extensions.find(({ type, critical }) => critical && !KEPT.has(type) && !MADE.has(type))
  return lost && `it has the critical extension ${lost.type}, which cannot be made here`
}

/** Extensions of names and uses, by RFC 5280: 4.2.1.6 and 4.2.1.12. */
const KEPT: ReadonlySet<string> = new Set(['2.5.29.17', '2.5.29.37'])
/**
 * Extensions that are made for each certificate: subject and authority key identifier, key usage, basic constraints.
 */
const MADE: ReadonlySet<string> = new Set(['2.5.29.14', '2.5.29.35', '2.5.29.15', '2.5.29.19'])

type Leaf = { readonly subject: Name; readonly extensions: readonly Extension[] }

async function issue(
  authority: CertificatePair,
  { subject, extensions }: Leaf,
  nowMs: number,
): Promise<CertificatePair> {
  const issuer = new X509Certificate(authority.certificate)
  const authorityKey = createPrivateKey(authority.key)
  const algorithm = signingAlgorithm(authorityKey)
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const certificate = await X509CertificateGenerator.create({
    subject,
    issuer: issuer.subjectName,
    publicKey: keys.publicKey,
    signingKey: authorityKey.toCryptoKey(algorithm, false, ['sign']),
    ...validity(nowMs, limits.certificateValidityDays),
    serialNumber: serialNumber(),
    signingAlgorithm: algorithm,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
      await keyIdentifierOf(issuer),
      ...extensions,
    ],
  })
  checkAccepted(certificate, issuer)
  return pem(certificate, keys.privateKey)
}

/**
 * Names the key of the issuer as the issuer's own certificate does, because clients compare the two (RFC 5280,
 * 4.2.1.1). An operator's authority may have any identifier.
 */
async function keyIdentifierOf(issuer: X509Certificate): Promise<AuthorityKeyIdentifierExtension> {
  const own = issuer.getExtension(SubjectKeyIdentifierExtension)
  return own === null
    ? AuthorityKeyIdentifierExtension.create(issuer.publicKey)
    : new AuthorityKeyIdentifierExtension(own.keyId)
}

/** Throws SetupError if OpenSSL, in clients and hosts, would not take `issuer` for the issuer of the certificate. */
function checkAccepted(certificate: X509Certificate, issuer: X509Certificate): void {
  const leaf = new NodeCertificate(Buffer.from(certificate.rawData))
  const authority = new NodeCertificate(Buffer.from(issuer.rawData))
  if (leaf.checkIssued(authority)) return
  throw new SetupError(
    `the authority ${nameInOneLine(authority.subject)} cannot sign a certificate for ${nameInOneLine(leaf.subject)} that others accept: the key usage of its own certificate must have keyCertSign`,
  )
}

/** Builds the name from its value instead of parsing it: quotes and commas in it are ordinary characters. */
const nameOf = (commonName: string): Name => new Name([{ CN: [{ utf8String: commonName }] }])

/** Counts the days from the beginning, because clients compare it with the end. */
function validity(nowMs: number, days: number) {
  const fromMs = nowMs - limits.certificateBackdateMs
  return { notBefore: new Date(fromMs), notAfter: new Date(fromMs + days * DAY_MS) }
}

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
