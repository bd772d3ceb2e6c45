import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { errorChain } from '../../log/error-chain.ts'
import { certificatesIn } from '../../lib/certificates.ts'
import { given } from '../../lib/given.ts'
import { certificatesSent, withIssuers, serialOf } from './peer-chain.ts'
import { issuersWithoutList, whyNotReplaced } from './revocation-order.ts'
import { TlsFilesUnusable } from './tls-files.ts'
import { isWarningDue } from './warning-due.ts'
import type { TLSSocket } from 'node:tls'
import type { Log } from '../../log/log.ts'
import type { RevocationList } from './revocation-list.ts'

/** State of the revocation lists of a listener. */
export type RevocationState = {
  /** Number of revoked certificates. */
  readonly revoked: number
  /** When the first of the lists is due to be replaced; absent if none says so. */
  readonly nextUpdateMs?: number
  readonly lists: readonly ListState[]
}

/** The list of one authority. `revoked` is the number of its certificates. */
export type ListState = Pick<RevocationList, 'issuer' | 'thisUpdateMs' | 'nextUpdateMs'> & {
  readonly revoked: number
}

type Options = {
  readonly path: string
  readonly log: Log
  /** Returns the authorities that are trusted now (PEM). */
  readonly authorities: () => Buffer
  /** Time of day in milliseconds. */
  readonly now?: () => number
}

/**
 * The certificates that their authorities have revoked. A file that cannot be used leaves the previous lists in use,
 * and so does one that lacks a list or has an older one. A list that is past its time stays in use: what it revokes
 * stays revoked, and other clients are let in.
 */
export class Revocations {
  readonly #options: Options
  #lists: readonly RevocationList[] = []
  #readFrom: string | undefined
  #complained = false
  #warnedMs = -Infinity

  private constructor(options: Options) {
    this.#options = options
  }

  /** Throws TlsFilesUnusable: without a list, a revoked certificate would be let in. */
  static async open(options: Options): Promise<Revocations> {
    const opened = new Revocations(options)
    try {
      await opened.#read()
    } catch (cause) {
      throw new TlsFilesUnusable(`${options.path} cannot be used as a revocation list`, { cause })
    }
    opened.#warnIfOld()
    return opened
  }

  /** Returns whether this certificate is revoked, by the list of the authority that issued it. */
  has(certificate: X509Certificate): boolean {
    return this.#lists.some(
      ({ authority, serials }) =>
        serials.has(serialOf(certificate.serialNumber)) && certificate.verify(authority.publicKey),
    )
  }

  /**
   * Returns a function that says whether a peer's certificate is revoked by now, or an authority above it, also when
   * the connection is gone. `authorities` are those that are trusted.
   */
  revocationOf(socket: TLSSocket, authorities: readonly X509Certificate[]): () => boolean {
    const chain = withIssuers(certificatesSent(socket), authorities)
    return () => chain.some((one) => this.has(one))
  }

  get state(): RevocationState {
    const dues = this.#lists.flatMap(({ nextUpdateMs }) => nextUpdateMs ?? [])
    return {
      revoked: this.#lists.reduce((sum, { serials }) => sum + serials.size, 0),
      ...(dues.length === 0 ? {} : { nextUpdateMs: Math.min(...dues) }),
      lists: this.#lists.map(({ issuer, serials, thisUpdateMs, nextUpdateMs }) => ({
        issuer,
        revoked: serials.size,
        thisUpdateMs,
        ...given({ nextUpdateMs }),
      })),
    }
  }

  /** Reads the file again. Resolves with whether other lists are in use now. */
  async look(): Promise<boolean> {
    const { log } = this.#options
    try {
      const changed = await this.#read()
      this.#complained = false
      if (changed) log.info(this.#fields(), 'revocation list replaced')
      return changed
    } catch (error) {
      if (!this.#complained)
        log.warn(
          { path: this.#options.path, reason: errorChain(error) },
          'new revocation list refused; the previous one stays in use',
        )
      this.#complained = true
      return false
    } finally {
      this.#warnIfOld()
    }
  }

  /** Returns whether the file or the authorities have changed since they were last read without an error. */
  async #read(): Promise<boolean> {
    const text = readFileSync(this.#options.path, 'latin1')
    const authorities = certificatesIn(this.#options.authorities())
    const readFrom = [text, ...authorities].join('\0')
    if (readFrom === this.#readFrom) return false
    // The library takes time and memory to load (ADR 0054): only a host with a list pays for it.
    const { parseRevocationLists } = await import('./revocation-list.ts')
    const { lists, foreignIssuers } = await parseRevocationLists(text, authorities)
    const trusted = authorities.map((pem) => new X509Certificate(pem))
    const reason = whyNotReplaced(this.#lists, lists, trusted)
    if (reason !== undefined) throw new Error(reason)
    this.#lists = lists
    this.#readFrom = readFrom
    this.#warnOfForeign(foreignIssuers)
    this.#warnOfLacking(issuersWithoutList(lists, trusted))
    return true
  }

  #warnOfForeign(issuers: readonly string[]): void {
    if (issuers.length === 0) return
    this.#options.log.warn(
      { path: this.#options.path, issuers },
      'revocation lists of authorities that are not trusted here are not used',
    )
  }

  #warnOfLacking(issuers: readonly string[]): void {
    if (issuers.length === 0) return
    this.#options.log.warn(
      { path: this.#options.path, issuers },
      'authorities that are trusted have no revocation list: all that they signed is let in',
    )
  }

  #warnIfOld(): void {
    const nowMs = (this.#options.now ?? Date.now)()
    const { nextUpdateMs = Infinity } = this.state
    if (nowMs < nextUpdateMs || !isWarningDue(this.#warnedMs, nowMs)) return
    this.#warnedMs = nowMs
    this.#options.log.warn(
      this.#fields(),
      'revocation list has expired: replace it; what it revokes stays refused, and later revocations are not known',
    )
  }

  #fields(): object {
    const { revoked, nextUpdateMs } = this.state
    return {
      path: this.#options.path,
      revoked,
      ...(nextUpdateMs === undefined ? {} : { next_update: new Date(nextUpdateMs).toISOString() }),
    }
  }
}
