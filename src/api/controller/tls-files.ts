import { createHash, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { limits } from '../../config/limits.ts'
import type { SecureContextOptions } from 'node:tls'
import type { Log } from '../../log/log.ts'

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
    // An authority file without a certificate is no error there: it would refuse everyone.
    void new X509Certificate(options.ca)
    const expiresAtMs = new X509Certificate(options.cert).validToDate.getTime()
    const digest = createHash('sha256')
    for (const part of [options.ca, options.cert, options.key]) digest.update(part).update('\0')
    return { options, fingerprint: digest.digest('hex'), expiresAtMs }
  } catch (cause) {
    throw new TlsFilesUnusable(`${files.certificate}, ${files.key} and ${files.ca} cannot be used together`, {
      cause,
    })
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
  /** How often the files are looked at. */
  readonly recheckMs?: number
}

/**
 * Looks at the files again and again, and calls back when they have changed and fit together. Files are replaced by
 * renames, symbolic links or in place, one after the other; reading them is the one way that sees all of that. Until
 * they fit, what was there stays in use. Returns the way to stop.
 */
export function watchTlsFiles({ files, current, onChange, log, recheckMs }: TlsWatch): () => void {
  let inUse = current
  let complained = false
  warnOfExpiry(inUse, log)
  const timer = setInterval(() => {
    try {
      const found = readTlsFiles(files)
      complained = false
      if (found.fingerprint === inUse.fingerprint) return
      inUse = found
      onChange(found)
      log.info({ expires_at: new Date(found.expiresAtMs).toISOString() }, 'certificates were replaced')
      warnOfExpiry(found, log)
    } catch (error) {
      // Once for each time that they become unusable; a half-finished renewal is seen here too.
      if (!complained)
        log.warn({ error }, 'the certificate files cannot be used; the previous ones stay in use')
      complained = true
    }
  }, recheckMs ?? limits.certificateRecheckMs)
  timer.unref()
  return () => clearInterval(timer)
}

function warnOfExpiry({ expiresAtMs }: TlsMaterial, log: Log): void {
  const daysLeft = Math.floor((expiresAtMs - Date.now()) / 86_400_000)
  if (daysLeft > limits.certificateWarningDays) return
  const fields = { expires_at: new Date(expiresAtMs).toISOString(), days_left: daysLeft }
  log.warn(
    fields,
    'the certificate of the controller listener ends soon: replace its files, no restart is needed',
  )
}
