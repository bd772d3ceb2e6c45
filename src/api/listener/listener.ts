import { Server as TlsServer } from 'node:https'
import { readTlsFiles, watchTlsFiles } from './tls-files.ts'
import { tlsTransport } from './transports.ts'
import { TrustedPeers } from './trusted-peers.ts'
import { given } from '../../lib/given.ts'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { Log } from '../../log/log.ts'
import type { App, Transport } from './app.ts'
import type { RevocationState } from './revocations.ts'
import type { TlsFiles, TlsMaterial } from './tls-files.ts'
import type { Admit, BeginsUpgrade, HasRoom } from './transports.ts'

/** Where a listener is, and which certificates it uses. */
export type ListenerPlace = {
  readonly address: string
  /** 0 lets the kernel choose. */
  readonly port: number
  readonly tlsFiles: TlsFiles
  /** Interval at which the certificate files are read; for tests. */
  readonly certificateRecheckMs?: number
}

export type ListenerOptions = ListenerPlace & {
  readonly createApp: (transport: Transport) => Promise<App>
  readonly admit: Admit
  readonly beginsUpgrade: BeginsUpgrade
  /** Unless given, every verified client has room. */
  readonly hasRoom?: HasRoom
  /** Called at the start, and each time that the certificate files were read, with what is in use then. */
  readonly onCertificates?: (inUse: TlsMaterial, revocations: () => RevocationState | undefined) => void
  /** Called for each connection with a verified client certificate. `isRevoked` says whether it is revoked by now. */
  readonly onConnection?: (socket: TLSSocket, isRevoked: () => boolean) => void
  readonly log: Log
}

/** A running listener. */
export type Listener = {
  readonly port: number
  /**
   * Takes no new connections, lets running requests end, and closes all that is left after `boundMs`, upgraded
   * connections too.
   */
  close(boundMs: number): Promise<void>
}

/** Serves an API over TLS. Throws TlsFilesUnusable, or the error of listen(2). */
export async function startListener(options: ListenerOptions): Promise<Listener> {
  const { tlsFiles, admit, beginsUpgrade, hasRoom = () => true, onCertificates, onConnection, log } = options
  const tls = readTlsFiles(tlsFiles)
  const peers = await TrustedPeers.open({ tls, ...given({ revocationsPath: tlsFiles.revocations }), log })
  const isRevoked = (socket: TLSSocket): boolean => peers.isRevoked(socket)
  const transport = tlsTransport({ secure: tls.options, admit, beginsUpgrade, isRevoked, hasRoom, log })
  const app = await options.createApp(transport)
  try {
    await app.listen({ host: options.address, port: options.port })
  } catch (error) {
    await app.close()
    throw error
  }
  const { server } = app
  const upgraded = upgradedSockets(server)
  server.on('secureConnection', (socket: TLSSocket) => {
    if (!socket.authorized || socket.destroyed) return
    peers.watch(socket)
    onConnection?.(socket, peers.revocationOf(socket))
  })
  const stopWatching = watchTlsFiles({
    files: tlsFiles,
    current: tls,
    log,
    onChange: (material) => {
      if (server instanceof TlsServer) server.setSecureContext(material.options)
      peers.trust(material)
      // A handshake under way would be judged by the files of before (setSecureContext of node:tls).
      transport.endHandshakes()
    },
    onLook: (inUse) => {
      onCertificates?.(inUse, () => peers.revocations)
      void peers.look()
    },
    ...(options.certificateRecheckMs === undefined ? {} : { recheckMs: options.certificateRecheckMs }),
  })
  return {
    port: (server.address() as AddressInfo).port,
    async close(boundMs) {
      stopWatching()
      transport.endHandshakes()
      const bound = setTimeout(() => {
        transport.endHandshakes()
        server.closeAllConnections()
        for (const socket of upgraded) socket.destroy()
      }, boundMs)
      await app.close()
      clearTimeout(bound)
    },
  }
}

/** Returns the connections that the server gave up to an upgrade and therefore does not close by itself. */
function upgradedSockets(server: Server): ReadonlySet<Duplex> {
  const sockets = new Set<Duplex>()
  server.on('upgrade', (_request, socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  return sockets
}
