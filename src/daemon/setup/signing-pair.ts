import { createPrivateKey } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { parsedCertificatesIn } from '../../lib/certificates.ts'
import { kindOf, SIGNING_KINDS, signs } from './signing-algorithm.ts'
import type { KeyObject, X509Certificate } from 'node:crypto'
import type { CertificatePair } from './certificates.ts'
import type { PairPaths } from './pair-files.ts'

/**
 * Returns the pair that signs here: the certificate in the authority's file that fits its key. While an authority is
 * replaced, the file has both. Undefined if there is not one; {@link whyNotSigned} says why.
 */
export function signingPair({ certificate, key }: PairPaths): CertificatePair | undefined {
  if (!existsSync(certificate) || !existsSync(key)) return undefined
  const keyPem = readFileSync(key, 'utf8')
  const privateKey = privateKeyIn(keyPem)
  if (privateKey === undefined || !signs(privateKey)) return undefined
  const own = authoritiesAt(certificate).find((one) => one.checkPrivateKey(privateKey))
  return own && { certificate: own.toString(), key: keyPem }
}

/** Returns the certificates of an authority's file that is there; none if one of them cannot be read. */
export function authoritiesAt(path: string): readonly X509Certificate[] {
  const content = readFileSync(path)
  try {
    return parsedCertificatesIn(content)
  } catch {
    return []
  }
}

/** Returns the private key of a file; undefined if it has none that can be read without a passphrase. */
export function privateKeyIn(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem)
  } catch {
    return undefined
  }
}

/** Says why an authority without a signing pair cannot sign, and what to do, up to what it is to sign. */
export function whyNotSigned({ certificate, key }: PairPaths): string {
  const privateKey = existsSync(key) ? privateKeyIn(readFileSync(key, 'utf8')) : undefined
  const cannot = 'its authority cannot sign here, because'
  if (existsSync(certificate) && authoritiesAt(certificate).length === 0)
    return `${cannot} ${certificate} is not a certificate: put the right file there, or have that authority sign`
  if (privateKey !== undefined && !signs(privateKey))
    return `${cannot} ${key} is of the kind ${kindOf(privateKey)}, and only keys of ${SIGNING_KINDS} sign here: have that authority sign`
  const because =
    privateKey !== undefined
      ? 'is not the key of it'
      : existsSync(key)
        ? 'is not a private key (PEM) without a passphrase'
        : 'is not there'
  return `${cannot} ${key} ${because}: put that key there, or have that authority sign`
}
