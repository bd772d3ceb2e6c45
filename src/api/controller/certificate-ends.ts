import { readFileSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { endOf, firstEnd } from '../listener/tls-files.ts'
import type { RevocationState } from '../listener/revocations.ts'
import type { TlsMaterial } from '../listener/tls-files.ts'
import type { Log } from '../../log/log.ts'
import type { CertificateName } from '../wire/sync.ts'

export type CertificateEnd = { readonly name: CertificateName; readonly notAfterMs: number }

const DAY_MS = 86_400_000

const ADVICE: Readonly<Record<CertificateName, string>> = {
  server: 'replace its files, no restart is needed',
  authority: 'replace it together with all that it has signed',
  node: 'replace its files',
  node_authority: 'replace it together with the certificates of all nodes',
  controller: 'give the controller a new one',
}

/** Keeps when the certificates that this host depends on expire. Warns of each that expires soon, once a day. */
export class CertificateEnds {
  readonly #log: Log
  readonly #now: () => number
  readonly #ends = new Map<CertificateName, { readonly notAfterMs: number; warnDueMs: number }>()

  /** State of the revocation list; undefined without one. */
  revocations: RevocationState | undefined

  /** @param now time of day in milliseconds */
  constructor(log: Log, now: () => number = Date.now) {
    this.#log = log
    this.#now = now
  }

  /** `undefined` means that there is no such certificate. A changed end is warned of at the next check. */
  set(name: CertificateName, notAfterMs: number | undefined): void {
    if (notAfterMs === undefined) this.#ends.delete(name)
    else if (this.#ends.get(name)?.notAfterMs !== notAfterMs)
      this.#ends.set(name, { notAfterMs, warnDueMs: 0 })
  }

  /** Returns the certificates in the order of their names. */
  list(): readonly CertificateEnd[] {
    return [...this.#ends]
      .map(([name, { notAfterMs }]) => ({ name, notAfterMs }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  check(): void {
    const nowMs = this.#now()
    for (const [name, end] of this.#ends) {
      const daysLeft = Math.floor((end.notAfterMs - nowMs) / DAY_MS)
      if (daysLeft > limits.certificateWarningDays || nowMs < end.warnDueMs) continue
      end.warnDueMs = nowMs + limits.certificateWarnEveryMs
      this.#log.warn(
        { certificate: name, expires_at: new Date(end.notAfterMs).toISOString(), days_left: daysLeft },
        `certificate ${daysLeft < 0 ? 'has ended' : 'ends soon'}: ${ADVICE[name]}`,
      )
    }
  }
}

/** Files of this host as a node. */
export type NodeFiles = {
  readonly certificate: string
  /** Absent if the authority of this API signs nodes too. */
  readonly authority?: string
}

/** Returns the callback of a watch of certificate files: it notes what is in use, and what is in the node's files. */
export const noteInUse =
  (ends: CertificateEnds, node: NodeFiles) =>
  (inUse: TlsMaterial, revocations?: RevocationState): void => {
    ends.revocations = revocations
    ends.set('server', inUse.expiresAtMs)
    ends.set('authority', inUse.authorityExpiresAtMs)
    ends.set('node', endOfFile(node.certificate, endOf))
    ends.set('node_authority', endOfFile(node.authority, firstEnd))
    ends.check()
  }

/** Returns when the certificates of a file expire; undefined without that file. */
function endOfFile(path: string | undefined, end: (pem: Buffer) => number): number | undefined {
  if (path === undefined) return undefined
  try {
    return end(readFileSync(path))
  } catch {
    return undefined
  }
}
