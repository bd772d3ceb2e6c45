import { createHash, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { limits } from '../../config/limits.ts'
import type { SecureContextOptions } from 'node:tls'
import type { Log } from '../../log/log.ts'
import type { CertificateEnds } from './certificate-ends.ts'

/** Paths of PEM files. */
export type TlsFiles = { readonly ca: string; readonly certificate: string; readonly key: string }

/** A certificate file that cannot be read or used; the message says which. */
export class TlsFilesUnusable extends Error {
  override readonly name = 'TlsFilesUnusable'
}

export type TlsMaterial = {
  readonly options: SecureContextOptions
  /** Of all three files; tells whether they changed. */
  readonly fingerprint: string
  readonly expiresAtMs: number
  /** Of the first of several authorities to end. */
  readonly authorityExpiresAtMs: number
}

/** Reads the files and proves that they fit together. Throws TlsFilesUnusable. */
export function readTlsFiles(files: TlsFiles): TlsMaterial {
  const options = {
    ca: read(files.ca),
    cert: read(files.certificate),
    key: read(files.key),
    minVersion: 'TLSv1.3',
  } as const satisfies SecureContextOptions
  try {
    createSecureContext(options)
    // An authority file without a certificate is not an error there: it would refuse everyone.
    const authorityExpiresAtMs = firstEnd(options.ca)
    const expiresAtMs = endOf(options.cert)
    const digest = createHash('sha256')
    for (const part of [options.ca, options.cert, options.key]) digest.update(part).update('\0')
    return { options, fingerprint: digest.digest('hex'), expiresAtMs, authorityExpiresAtMs }
  } catch (cause) {
    throw new TlsFilesUnusable(`${files.certificate}, ${files.key} and ${files.ca} cannot be used together`, {
      cause,
    })
  }
}

const endOf = (pem: Buffer | string): number => new X509Certificate(pem).validToDate.getTime()

/** Throws if there is no certificate in the file. */
function firstEnd(pem: Buffer): number {
  const blocks = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g)
  return Math.min(...(blocks ?? [pem]).map(endOf))
}

/** Of the certificate that `vmhostd setup` puts beside the server's; undefined if it is not there. */
function nodeEnd({ certificate }: TlsFiles): number | undefined {
  try {
    return endOf(readFileSync(join(dirname(certificate), 'node.crt')))
  } catch {
    return undefined
  }
}

function read(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new TlsFilesUnusable(`${path} cannot be read; "vmhostd setup" makes certificates to start from`, {
      cause,
    })
  }
}

export type TlsWatch = {
  readonly files: TlsFiles
  readonly current: TlsMaterial
  readonly onChange: (material: TlsMaterial) => void
  readonly log: Log
  readonly ends: CertificateEnds
  /** How often the files are looked at. */
  readonly recheckMs?: number
}

/**
 * Looks at the files again and again, and calls back when they have changed and fit together. Files are replaced by
 * renames, symbolic links or in place, one after the other; reading them is the one way that sees all of that. Until
 * they fit, what was there stays in use. Returns the way to stop.
 */
export function watchTlsFiles({ files, current, onChange, log, ends, recheckMs }: TlsWatch): () => void {
  let inUse = current
  let complained = false
  const checkEnds = (): void => {
    ends.set('server', inUse.expiresAtMs)
    ends.set('authority', inUse.authorityExpiresAtMs)
    ends.set('node', nodeEnd(files))
    ends.check()
  }
  checkEnds()
  const timer = setInterval(() => {
    try {
      const found = readTlsFiles(files)
      complained = false
      if (found.fingerprint === inUse.fingerprint) return
      inUse = found
      onChange(found)
      log.info({ expires_at: new Date(found.expiresAtMs).toISOString() }, 'certificates were replaced')
    } catch (error) {
      // Once for each time that they become unusable; a half-finished renewal is seen here too.
      if (!complained)
        log.warn({ error }, 'the certificate files cannot be used; the previous ones stay in use')
      complained = true
    } finally {
      checkEnds()
    }
  }, recheckMs ?? limits.certificateRecheckMs)
  timer.unref()
  return () => clearInterval(timer)
}
