import { certificatesSent, isIssuedBy, peerCertificate, withIssuers } from './peer-chain.ts'
import { parsedCertificatesIn } from '../../lib/certificates.ts'
import { Revocations } from './revocations.ts'
import type { X509Certificate } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import type { Log } from '../../log/log.ts'
import type { RevocationState } from './revocations.ts'
import type { TlsMaterial } from './tls-files.ts'

type Options = {
  readonly tls: TlsMaterial
  readonly revocationsPath?: string
  readonly log: Log
}

/** Serial numbers that one log line has at most. */
const SERIALS_MAX = 10

/**
 * The connections of a listener whose certificates are trusted. A handshake decides once, so this ends connections when
 * their certificate expires or is revoked later, or when its authority is no longer in the file.
 */
export class TrustedPeers {
  readonly #log: Log
  /** With the time at which the certificate expires, in milliseconds. */
  readonly #sockets = new Map<TLSSocket, number>()
  #tls: TlsMaterial
  #authorities: readonly X509Certificate[]
  #revocations: Revocations | undefined
  #looking = false

  private constructor({ tls, log }: Options) {
    this.#tls = tls
    this.#authorities = authoritiesOf(tls)
    this.#log = log
  }

  /** Throws TlsFilesUnusable. */
  static async open(options: Options): Promise<TrustedPeers> {
    const opened = new TrustedPeers(options)
    const { revocationsPath: path, log } = options
    const authorities = (): Buffer => opened.#tls.options.ca
    if (path !== undefined) opened.#revocations = await Revocations.open({ path, log, authorities })
    return opened
  }

  /** Undefined without a revocation list. */
  get revocations(): RevocationState | undefined {
    return this.#revocations?.state
  }

  /** The connections under watch. */
  get connected(): Iterable<TLSSocket> {
    return this.#sockets.keys()
  }

  /** Keeps a connection under watch until it closes. */
  watch(socket: TLSSocket): void {
    this.#sockets.set(socket, socket.getPeerX509Certificate()?.validToDate.getTime() ?? Infinity)
    socket.once('close', () => this.#sockets.delete(socket))
  }

  /** Returns whether the peer's certificate is revoked, or an authority above it. */
  isRevoked(socket: TLSSocket): boolean {
    return this.revocationOf(socket)()
  }

  /** Returns a function that says whether that is revoked by now, also when the connection is gone. */
  revocationOf(socket: TLSSocket): () => boolean {
    return this.#revocations?.revocationOf(socket, this.#authorities) ?? (() => false)
  }

  /** Notes the files that are in use now, and ends connections of authorities that are no longer among them. */
  trust(tls: TlsMaterial): void {
    this.#tls = tls
    this.#authorities = authoritiesOf(tls)
    this.#end('authority_removed', (socket) => {
      const [own, ...others] = certificatesSent(socket)
      const chain = own === undefined ? [] : withIssuers([own], others)
      return !chain.some((one) => this.#authorities.some((authority) => isOf(one, authority)))
    })
  }

  /**
   * Ends connections whose certificate has expired. Reads the revocation list again,
   * and ends connections of what it revokes.
   */
  async look(): Promise<void> {
    const nowMs = Date.now()
    this.#end('certificate_expired', (_socket, notAfterMs) => nowMs > notAfterMs)
    if (this.#revocations === undefined || this.#looking) return
    this.#looking = true
    const changed = await this.#revocations.look()
    this.#looking = false
    if (changed) this.#end('certificate_revoked', (socket) => this.isRevoked(socket))
  }

  #end(reason: string, isToEnd: (socket: TLSSocket, notAfterMs: number) => boolean): void {
    const ended = [...this.#sockets].flatMap(([socket, notAfterMs]) =>
      isToEnd(socket, notAfterMs) ? socket : [],
    )
    if (ended.length === 0) return
    const serials = new Set(ended.flatMap((socket) => peerCertificate(socket).certificate_serial ?? []))
    this.#log.warn(
      { reason, count: ended.length, certificate_serials: [...serials].slice(0, SERIALS_MAX) },
      'connections ended: their certificates are no longer trusted',
    )
    for (const socket of ended) socket.destroy()
  }
}

const isOf = (one: X509Certificate, authority: X509Certificate): boolean =>
  one.fingerprint256 === authority.fingerprint256 || isIssuedBy(one, authority)

const authoritiesOf = (tls: TlsMaterial): readonly X509Certificate[] => parsedCertificatesIn(tls.options.ca)
