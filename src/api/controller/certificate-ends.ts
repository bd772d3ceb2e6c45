import { readFileSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { isWarningDue } from '../listener/warning-due.ts'
import { endOf, firstEnd } from '../listener/tls-files.ts'
import { ClientCertificates } from './client-certificates.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import { errorChain } from '../../log/error-chain.ts'
import type { Hindrance } from '../../core/errors.ts'
import type { CertificatesSeen } from '../listener/listener.ts'
import type { RevocationState } from '../listener/revocations.ts'
import type { TrustSeen } from '../../core/events/certificate-events.ts'
import type { Log } from '../../log/log.ts'
import type { CertificateName } from '../wire/sync.ts'
import type { CertificateSight } from '../wire/sync-to-wire.ts'

/** A listener that may have revocation lists of its own. That of metrics has those of the controller. */
export type ListenerWithLists = 'controller' | 'coordination'

type OnCheck = (seen: TrustSeen, nowMs: number) => void

/** A certificate of this host; those of the controller and of the reader of metrics are among those of clients. */
type OwnCertificate = Exclude<CertificateName, (typeof NEEDED_CLIENTS)[number]>

/** The roles of clients that this host depends on. */
const NEEDED_CLIENTS = ['controller', 'metrics'] as const

const ADVICE: Readonly<Record<OwnCertificate, string>> = {
  server: 'replace its files, no restart is needed',
  authority: 'replace it together with all that it has signed',
  node: 'replace its files',
  node_authority: 'replace it together with the certificates of all nodes',
}

/** Keeps when the certificates that this host depends on expire. Warns of each that expires soon, once a day. */
export class CertificateEnds {
  readonly #log: Log
  readonly #now: () => number
  readonly #onCheck: OnCheck
  readonly #ends = new Map<OwnCertificate, { readonly notAfterMs: number; warnedMs: number }>()
  /** Times of the last warnings by serial number. */
  readonly #clientWarnings = new Map<string, number>()

  /** Certificates of clients that connected lately. */
  readonly clients: ClientCertificates

  /** Why the certificate files of a listener are not in use. */
  readonly #refused = new Map<ListenerWithLists, string>()

  /** Functions that return the state of the revocation lists of a listener now; undefined without a list. */
  readonly #revocations = new Map<ListenerWithLists, () => RevocationState | undefined>()

  /** @param now time of day in milliseconds; `onCheck` takes what each check has seen */
  constructor(log: Log, now: () => number = Date.now, onCheck: OnCheck = () => {}) {
    this.#log = log
    this.#now = now
    this.#onCheck = onCheck
    this.clients = new ClientCertificates(now)
  }

  /** `undefined` means that there is no such certificate. A changed end is warned of at the next check. */
  set(name: OwnCertificate, notAfterMs: number | undefined): void {
    if (notAfterMs === undefined) this.#ends.delete(name)
    else if (this.#ends.get(name)?.notAfterMs !== notAfterMs)
      this.#ends.set(name, { notAfterMs, warnedMs: -Infinity })
  }

  /** Returns the certificates in the order of their names. */
  list(): readonly CertificateSight[] {
    const own = [...this.#ends].map(([name, { notAfterMs }]): CertificateSight => ({ name, notAfterMs }))
    return [...own, ...NEEDED_CLIENTS.flatMap((role) => this.#clientOf(role))].toSorted((a, b) =>
      a.name < b.name ? -1 : 1,
    )
  }

  /**
   * Returns the first to expire of the clients of the last day that have this role; without any, that of the last one.
   */
  #clientOf(name: (typeof NEEDED_CLIENTS)[number]): CertificateSight[] {
    const clients = this.clients.list().filter(({ role }) => role === name)
    if (clients.length === 0) return []
    const lastMs = Math.max(...clients.map(({ seenMs }) => seenMs))
    const sinceMs = Math.min(lastMs, this.#now() - limits.neededClientSeenMs)
    const lately = clients.filter(({ seenMs }) => seenMs >= sinceMs)
    return [{ name, notAfterMs: Math.min(...lately.map(({ notAfterMs }) => notAfterMs)) }]
  }

  /** Takes why the certificate files of a listener are not in use; undefined if they are. */
  noteFiles(listener: ListenerWithLists, refused: unknown): void {
    if (refused === undefined) this.#refused.delete(listener)
    else this.#refused.set(listener, errorChain(refused))
  }

  /** Returns a fault of the host for each listener whose certificate files are refused. */
  fileFaults(): readonly Hindrance[] {
    return [...this.#refused].map(([listener, reason]) => ({
      code: 'certificates_unusable',
      retry: 'backoff',
      message: `the certificate files of the listener ${listener} are refused, and it does not start with them: ${reason}`,
    }))
  }

  /** Takes a function that returns the lists of a listener. */
  watchLists(listener: ListenerWithLists, state: () => RevocationState | undefined): void {
    this.#revocations.set(listener, state)
  }

  /** Returns the revocation lists of a listener; undefined if it has none. */
  revocations(listener: ListenerWithLists): RevocationState | undefined {
    return this.#revocations.get(listener)?.()
  }

  /** Returns when the first list of each listener is due to be replaced. */
  nextUpdates(): readonly { readonly listener: ListenerWithLists; readonly nextUpdateMs: number }[] {
    return [...this.#revocations].flatMap(([listener, state]) => {
      const nextUpdateMs = state()?.nextUpdateMs
      return nextUpdateMs === undefined ? [] : [{ listener, nextUpdateMs }]
    })
  }

  check(): void {
    const nowMs = this.#now()
    for (const [name, end] of this.#ends) {
      if (!isWarningDue(end.warnedMs, nowMs)) continue
      if (this.#warn(end.notAfterMs, { certificate: name }, ADVICE[name])) end.warnedMs = nowMs
    }
    const clients = this.clients.list()
    for (const { commonName, serial, notAfterMs } of clients) {
      if (!isWarningDue(this.#clientWarnings.get(serial), nowMs)) continue
      const fields = { certificate: 'client', certificate_name: commonName, certificate_serial: serial }
      if (this.#warn(notAfterMs, fields, 'give this client a new one'))
        this.#clientWarnings.set(serial, nowMs)
    }
    const known = new Set(clients.map(({ serial }) => serial))
    for (const serial of this.#clientWarnings.keys())
      if (!known.has(serial)) this.#clientWarnings.delete(serial)
    this.#onCheck(this.#seen(), nowMs)
  }

  #seen(): TrustSeen {
    const own = [...this.#ends].map(([certificate, { notAfterMs }]) => ({ certificate, notAfterMs }))
    const clients = this.clients.list().map(({ commonName: name, serial, notAfterMs }) => ({
      ...{ certificate: 'client', notAfterMs, name, serial },
    }))
    const lists = [...this.#revocations].map(([listener, state]) => [listener, state()?.lists ?? []] as const)
    return { certificates: [...own, ...clients], lists: new Map(lists) }
  }

  /** Returns whether the certificate ends soon, and warns of it then. */
  #warn(notAfterMs: number, fields: object, advice: string): boolean {
    const daysLeft = Math.floor((notAfterMs - this.#now()) / DAY_MS)
    if (daysLeft > limits.certificateWarningDays) return false
    this.#log.warn(
      { ...fields, expires_at: new Date(notAfterMs).toISOString(), days_left: daysLeft },
      `certificate ${daysLeft < 0 ? 'has ended' : 'ends soon'}: ${advice}`,
    )
    return true
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
  ({ inUse, refused, revocations }: CertificatesSeen): void => {
    ends.watchLists('controller', revocations)
    ends.noteFiles('controller', refused)
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
