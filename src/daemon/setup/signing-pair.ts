import { createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { certificatesIn } from '../../lib/certificates-in.ts'
import type { CertificatePair } from './certificates.ts'
import type { PairPaths } from './pair-files.ts'

/**
 * Returns the pair that signs here: the certificate in the authority's file that fits its key. While an authority is
 * replaced, the file has both. Undefined if there is not one.
 */
export function signingPair({ certificate, key }: PairPaths): CertificatePair | undefined {
  if (!existsSync(certificate) || !existsSync(key)) return undefined
  const keyPem = readFileSync(key, 'utf8')
  const privateKey = createPrivateKey(keyPem)
  const own = certificatesIn(readFileSync(certificate)).find((pem) =>
    new X509Certificate(pem).checkPrivateKey(privateKey),
  )
  return own === undefined ? undefined : { certificate: own, key: keyPem }
}

/** Says why an authority without a signing pair cannot sign. */
export const whyNotSigned = ({ key }: PairPaths): string =>
  `its authority cannot sign here, because ${key} ${existsSync(key) ? 'is not the key of it' : 'is not there'}`
