import { limits } from '../../config/limits.ts'
import { serialOf } from '../listener/serial.ts'
import type { TLSSocket } from 'node:tls'
import type { Role } from './clients.ts'

/** The certificate of a client that connected lately. */
export type ClientCertificate = {
  readonly commonName: string
  readonly role: Role
  /** As `openssl x509 -serial` prints it. */
  readonly serial: string
  readonly notAfterMs: number
  /** When it last opened a connection. */
  readonly seenMs: number
}

/**
 * Keeps the certificates of admitted clients, by their serial numbers: a client may have several at a time. One that was
 * not seen for a week is forgotten, because it was probably replaced. The one that was seen longest ago goes first.
 */
export class ClientCertificates {
  readonly #now: () => number
  /** Oldest first. */
  readonly #seen = new Map<string, ClientCertificate>()

  /** @param now time of day in milliseconds */
  constructor(now: () => number) {
    this.#now = now
  }

  note(client: Omit<ClientCertificate, 'seenMs'>): void {
    this.#seen.delete(client.serial)
    this.#seen.set(client.serial, { ...client, seenMs: this.#now() })
    const [oldest] = this.#seen.keys()
    if (this.#seen.size > limits.clientCertificatesMax && oldest !== undefined) this.#seen.delete(oldest)
  }

  /** Returns those that were seen lately, ordered by name and then by their end. */
  list(): readonly ClientCertificate[] {
    const sinceMs = this.#now() - limits.clientCertificateSeenMs
    for (const [serial, { seenMs }] of this.#seen) if (seenMs < sinceMs) this.#seen.delete(serial)
    return [...this.#seen.values()].toSorted((a, b) =>
      a.commonName === b.commonName ? a.notAfterMs - b.notAfterMs : a.commonName < b.commonName ? -1 : 1,
    )
  }
}

/** Returns name, serial number and end of a peer's certificate; undefined if the connection does not have it. */
export function certificateOf(
  socket: TLSSocket,
): Pick<ClientCertificate, 'commonName' | 'serial' | 'notAfterMs'> | undefined {
  const certificate = socket.getPeerX509Certificate()
  const commonName: unknown = socket.getPeerCertificate().subject?.CN
  if (certificate === undefined || typeof commonName !== 'string') return undefined
  const { serialNumber, validToDate } = certificate
  return { commonName, serial: serialOf(serialNumber), notAfterMs: validToDate.getTime() }
}
