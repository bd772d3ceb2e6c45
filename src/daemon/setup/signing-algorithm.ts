import type { KeyObject } from 'node:crypto'

/**
 * The algorithms of Web Crypto by which a key signs a certificate, each as strong as its key; by the name of its kind.
 */
const ALGORITHMS = {
  rsa: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
  prime256v1: { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' },
  secp384r1: { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' },
  secp521r1: { name: 'ECDSA', namedCurve: 'P-521', hash: 'SHA-512' },
  ed25519: { name: 'Ed25519' },
} as const

/** The kinds of keys that sign here, for messages. */
export const SIGNING_KINDS = 'RSA, P-256, P-384, P-521 and Ed25519'

type Kind = keyof typeof ALGORITHMS

/** Returns the name that OpenSSL has for the curve or else the type of a key. */
export const kindOf = ({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string =>
  asymmetricKeyDetails?.namedCurve ?? asymmetricKeyType ?? 'unknown'

const isKind = (kind: string): kind is Kind => Object.hasOwn(ALGORITHMS, kind)

/** Returns whether a key of this kind signs here. */
export const signs = (key: KeyObject): boolean => isKind(kindOf(key))

/** Returns how this key signs. Throws for a key of another kind: see {@link signs}. */
export function signingAlgorithm(key: KeyObject): (typeof ALGORITHMS)[Kind] {
  const kind = kindOf(key)
  if (!isKind(kind)) throw new Error(`a key of the kind ${kind} does not sign here`)
  return ALGORITHMS[kind]
}
