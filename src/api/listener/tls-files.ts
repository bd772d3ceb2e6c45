import { constants, createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { limits } from '../../config/limits.ts'
import { certificatesIn, lackingUsages, parsedCertificatesIn } from '../../lib/certificates.ts'
import type { SecureContextOptions } from 'node:tls'
import type { Log } from '../../log/log.ts'

/** Paths of PEM files. */
export type TlsFiles = {
  readonly ca: string
  readonly certificate: string
  readonly key: string
  /** Revocation lists of authorities in `ca`; absent if nothing is revoked. */
  readonly revocations?: string
}

/** A certificate file that cannot be read or used; the message says which. */
export class TlsFilesUnusable extends Error {
  override readonly name = 'TlsFilesUnusable'
}

/**
 * Usages beside `serverAuth` that some clients accept: that of all uses (RFC 5280, 4.2.1.12), which Go takes, and those
 * of server-gated cryptography by Microsoft and Netscape, which OpenSSL takes (x509_check_purpose).
 */
const ALSO_FOR_SERVERS: ReadonlySet<string> = new Set([
  '2.5.29.37.0',
  '1.3.6.1.4.1.311.10.3.3',
  '2.16.840.1.113730.4.1',
])

export type TlsMaterial = {
  readonly options: SecureContextOptions & { readonly ca: Buffer }
  /** Fingerprint of all three files; a changed one means that a file changed. */
  readonly fingerprint: string
  readonly expiresAtMs: number
  /** End of the authority that expires first, if there are several. */
  readonly authorityExpiresAtMs: number
}

/** Reads the files, and proves that they fit together and are those of a server. Throws TlsFilesUnusable. */
export function readTlsFiles(files: TlsFiles): TlsMaterial {
  const options = {
    ca: read(files.ca),
    cert: read(files.certificate),
    key: read(files.key),
    minVersion: 'TLSv1.3',
    // A resumed session has only the client's own certificate, so nothing would show the authority above it (ADR 54).
    secureOptions: constants.SSL_OP_NO_TICKET,
  } as const satisfies SecureContextOptions
  const { leaf, authorities } = partsOf(options, files)
  // A client checks this (RFC 5280, 4.2.1.12), and OpenSSL does not for a server's own certificate.
  const lacking = lackingUsages(leaf, ['server'])
  if (lacking.length > 0 && !leaf.keyUsage.some((usage) => ALSO_FOR_SERVERS.has(usage)))
    throw new TlsFilesUnusable(
      `${files.certificate} does not have the usage ${lacking.join(', ')}: no client accepts it`,
    )
  try {
    createSecureContext(options)
  } catch (cause) {
    throw new TlsFilesUnusable(`${files.certificate}, ${files.key} and ${files.ca} cannot be used together`, {
      cause,
    })
  }
  const digest = createHash('sha256')
  for (const part of [options.ca, options.cert, options.key]) digest.update(part).update('\0')
  return {
    options,
    fingerprint: digest.digest('hex'),
    expiresAtMs: leaf.validToDate.getTime(),
    authorityExpiresAtMs: Math.min(...authorities.map(({ validToDate }) => validToDate.getTime())),
  }
}

type Contents = { readonly ca: Buffer; readonly cert: Buffer; readonly key: Buffer }

/** Parses each file by itself, because an error of TLS does not name the file. */
function partsOf(
  { ca, cert, key }: Contents,
  files: TlsFiles,
): { readonly leaf: X509Certificate; readonly authorities: readonly X509Certificate[] } {
  // TLS accepts an authority file without a certificate, and would then refuse every client.
  const authorities = certificatesAt(files.ca, ca)
  const [leaf] = certificatesAt(files.certificate, cert)
  const privateKey = parsedAt(files.key, 'private key (PEM) without a passphrase', () =>
    createPrivateKey(key),
  )
  if (!leaf.checkPrivateKey(privateKey))
    throw new TlsFilesUnusable(`${files.key} is not the key of ${files.certificate}`)
  return { leaf, authorities }
}

function certificatesAt(
  path: string,
  pem: Buffer,
): readonly [X509Certificate, ...(readonly X509Certificate[])] {
  const what = 'certificate (PEM)'
  const [first, ...more] = parsedAt(path, what, () => parsedCertificatesIn(pem))
  if (first === undefined) throw new TlsFilesUnusable(`${path} is not a ${what}`)
  return [first, ...more]
}

function parsedAt<T>(path: string, what: string, parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    throw new TlsFilesUnusable(`${path} is not a ${what}`, { cause })
  }
}

/** Returns when a certificate expires. Throws if the text has none. */
export const endOf = (pem: Buffer | string): number => new X509Certificate(pem).validToDate.getTime()

/** Returns when the first of the file's certificates expires. Throws if the file has none. */
export function firstEnd(pem: Buffer): number {
  const blocks = certificatesIn(pem)
  return Math.min(...(blocks.length === 0 ? [pem] : blocks).map(endOf))
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
  /**
   * Called at the start, and after each look at the files, with what is in use then. `refused`: why the files are not,
   * although they were read.
   */
  readonly onLook?: (inUse: TlsMaterial, refused?: unknown) => void
  /** Interval at which the files are read. */
  readonly recheckMs?: number
}

/**
 * Reads the files at an interval, and calls back when they have changed and fit together. Files are replaced by
 * renames, symbolic links or in place, one after the other; only reading them sees all of that. Until the new files
 * fit, the old ones stay in use. Returns a function that stops the watch.
 */
export function watchTlsFiles({ files, current, onChange, onLook, log, recheckMs }: TlsWatch): () => void {
  let inUse = current
  let complained = false
  onLook?.(current)
  const timer = setInterval(() => {
    let refused: unknown
    try {
      const found = readTlsFiles(files)
      complained = false
      if (found.fingerprint === inUse.fingerprint) return
      inUse = found
      onChange(found)
      log.info({ expires_at: new Date(found.expiresAtMs).toISOString() }, 'certificates replaced')
    } catch (error) {
      refused = error
      // Log once each time the files become unusable; a half-finished renewal is seen here too.
      if (!complained) log.warn({ error }, 'new certificate files refused; the previous ones stay in use')
      complained = true
    } finally {
      onLook?.(inUse, refused)
    }
  }, recheckMs ?? limits.certificateRecheckMs)
  timer.unref()
  return () => clearInterval(timer)
}
