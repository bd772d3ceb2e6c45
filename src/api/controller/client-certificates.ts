import { limits } from '../../config/limits.ts'
import { peerCertificate, serialOf } from '../listener/peer-chain.ts'
import type { TLSSocket } from 'node:tls'
import type { Role } from './clients.ts'

/** The certificate of a client that connected lately. */
export type ClientCertificate = {
  readonly commonName: string
  /** `metrics`: it reads metrics, on their listener. */
  readonly role: Role | 'metrics'
  /** As `openssl x509 -serial` prints it. */
  readonly serial: string
  readonly notAfterMs: number
  /** When it last had a connection. */
  readonly seenMs: number
}

type Seen = {
  readonly client: ClientCertificate
  readonly connections: number
  readonly isRevoked: () => boolean
}

/**
 * Keeps the certificates of admitted clients, by their serial numbers: a client may have several at a time. One that
 * was not seen for a week is forgotten, because it was probably replaced, and so is one that is revoked. The one that
 * was seen longest ago goes first.
 */
export class ClientCertificates {
  readonly #now: () => number
  /** Oldest first. */
  readonly #seen = new Map<string, Seen>()

  /** @param now time of day in milliseconds */
  constructor(now: () => number) {
    this.#now = now
  }

  /**
   * Notes a connection. Call the function that it returns when the connection ends.
   *
   * @param isRevoked says whether the certificate is revoked by now
   */
  note(client: Omit<ClientCertificate, 'seenMs'>, isRevoked: () => boolean = () => false): () => void {
    const connections = (this.#seen.get(client.serial)?.connections ?? 0) + 1
    this.#put({ client: { ...client, seenMs: this.#now() }, connections, isRevoked })
    const [oldest] = this.#seen.keys()
    if (this.#seen.size > limits.clientCertificatesMax && oldest !== undefined) this.#seen.delete(oldest)
    return () => {
      const seen = this.#seen.get(client.serial)
      if (seen === undefined) return
      const left = Math.max(0, seen.connections - 1)
      this.#put({ ...seen, client: { ...seen.client, seenMs: this.#now() }, connections: left })
    }
  }

  /** Notes a connection until it closes. */
  noteSocket(socket: TLSSocket, role: ClientCertificate['role'], isRevoked: () => boolean): void {
    const certificate = certificateOf(socket)
    if (certificate !== undefined) socket.once('close', this.note({ ...certificate, role }, isRevoked))
  }

  #put(seen: Seen): void {
    this.#seen.delete(seen.client.serial)
    this.#seen.set(seen.client.serial, seen)
  }

  /** Returns those that were seen lately, ordered by name and then by their end. */
  list(): readonly ClientCertificate[] {
    const nowMs = this.#now()
    const shown: ClientCertificate[] = []
    for (const [serial, seen] of this.#seen) {
      // A time that is not yet reached came from a clock that was ahead.
      const seenMs = seen.connections > 0 ? nowMs : Math.min(seen.client.seenMs, nowMs)
      const client = { ...seen.client, seenMs }
      this.#seen.set(serial, { ...seen, client })
      if (seenMs < nowMs - limits.clientCertificateSeenMs || seen.isRevoked()) this.#seen.delete(serial)
      else shown.push(client)
    }
    return shown.toSorted((a, b) =>
      a.commonName === b.commonName ? a.notAfterMs - b.notAfterMs : a.commonName < b.commonName ? -1 : 1,
    )
  }
}

/** Returns name, serial number and end of a peer's certificate; undefined if the connection does not have it. */
function certificateOf(
  socket: TLSSocket,
): Pick<ClientCertificate, 'commonName' | 'serial' | 'notAfterMs'> | undefined {
  const certificate = socket.getPeerX509Certificate()
  const { certificate_name: commonName } = peerCertificate(socket)
  if (certificate === undefined || commonName === undefined) return undefined
  const { serialNumber, validToDate } = certificate
  return { commonName, serial: serialOf(serialNumber), notAfterMs: validToDate.getTime() }
}
