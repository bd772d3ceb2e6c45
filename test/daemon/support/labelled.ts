import { X509Certificate } from 'node:crypto'

/** No settings of trust (X509_CERT_AUX of OpenSSL): an empty SEQUENCE. */
const NO_TRUST_SETTINGS = Buffer.from([0x30, 0x00])

/** Returns a certificate (PEM) in a block with this label, as `openssl x509` may write it. */
export function labelled(
  pem: string,
  label: 'CERTIFICATE' | 'X509 CERTIFICATE' | 'TRUSTED CERTIFICATE',
): string {
  const { raw } = new X509Certificate(pem)
  const content = label.startsWith('TRUSTED') ? Buffer.concat([raw, NO_TRUST_SETTINGS]) : raw
  const lines = content.toString('base64').replaceAll(/.{64}(?!$)/g, '$&\n')
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`
}
