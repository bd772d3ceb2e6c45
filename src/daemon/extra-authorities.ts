import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { certificatesIn } from '../lib/certificates.ts'
import type { Config } from '../config/config.ts'

/**
 * Reads the authorities that object stores may have besides those of the system, PEM. Undefined without such a file.
 * Throws an error that names the key of the configuration.
 */
export function extraAuthorities({
  objectStore,
}: Pick<Config, 'objectStore'>): readonly string[] | undefined {
  const { extraCaFile } = objectStore
  if (extraCaFile === undefined) return undefined
  try {
    const certificates = certificatesIn(readFileSync(extraCaFile))
    if (certificates.length === 0) throw new Error('it has no certificate')
    for (const [index, pem] of certificates.entries()) checkCertificate(pem, index + 1)
    return certificates
  } catch (cause) {
    throw new Error(`${extraCaFile}, which object_store.extra_ca_file names, cannot be used`, { cause })
  }
}

/** Throws if this is not a certificate. TLS passes over such a block, and then does not trust what it was meant for. */
function checkCertificate(pem: string, number: number): void {
  try {
    void new X509Certificate(pem)
  } catch (cause) {
    throw new Error(`block ${number} in it is not a certificate`, { cause })
  }
}
