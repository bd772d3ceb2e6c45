import { Revocations } from '../api/listener/revocations.ts'
import { parsedCertificatesIn } from '../lib/certificates.ts'
import { Semaphore } from '../lib/semaphore.ts'
import type { TLSSocket } from 'node:tls'
import type { Log } from '../log/log.ts'

type ReadRevoked = (ca: Buffer) => Promise<(socket: TLSSocket) => boolean>

/**
 * Returns what reads a file of revocation lists again, and judges the certificates of other hosts by it, as a listener
 * does. It throws TlsFilesUnusable until the file could be used once.
 */
export function revokedNodes(path: string, log: Log): ReadRevoked {
  // Two readings at once could leave the older lists in use.
  const turn = new Semaphore(1)
  let revocations: Revocations | undefined
  let authorities: Buffer = Buffer.alloc(0)
  return (ca) =>
    turn.run(async () => {
      authorities = ca
      if (revocations === undefined)
        revocations = await Revocations.open({ path, log, authorities: () => authorities })
      else await revocations.look()
      const lists = revocations
      const trusted = parsedCertificatesIn(ca)
      return (socket) => lists.revocationOf(socket, trusted)()
    })
}
