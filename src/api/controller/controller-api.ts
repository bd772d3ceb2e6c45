import { Server as TlsServer } from 'node:https'
import { createControllerApp } from './create-app.ts'
import { CertificateEnds } from './certificate-ends.ts'
import { readTlsFiles, watchTlsFiles } from './tls-files.ts'
import { tlsTransport } from './transports.ts'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { ApiDependencies } from './dependencies.ts'
import type { TlsFiles } from './tls-files.ts'

export type ControllerApiOptions = {
  readonly dependencies: ApiDependencies
  readonly address: string
  /** 0 lets the kernel choose. */
  readonly port: number
  readonly commonName: string
  readonly tlsFiles: TlsFiles
  /** Interval at which the certificate files are read; for tests. */
  readonly certificateRecheckMs?: number
}

/** The running listener. */
export type ControllerApi = {
  readonly port: number
  /**
   * Takes no new connections, ends consoles, lets running requests end, and closes all that is left after `boundMs`.
   */
  close(boundMs: number): Promise<void>
}

/** Serves the controller API. Throws TlsFilesUnusable, or the error of listen(2). */
export async function createControllerApi(options: ControllerApiOptions): Promise<ControllerApi> {
  const { dependencies, tlsFiles, commonName } = options
  const tls = readTlsFiles(tlsFiles)
  const transport = tlsTransport(tls.options, commonName, dependencies.log)
  const ends = new CertificateEnds(dependencies.log)
  const app = await createControllerApp({ ...dependencies, certificates: () => ends.list() }, transport)
  await app.listen({ host: options.address, port: options.port })
  const { server } = app
  const upgraded = upgradedSockets(server)
  noteControllers(server, ends)
  const stopWatching = watchTlsFiles({
    files: tlsFiles,
    current: tls,
    log: dependencies.log,
    ends,
    onChange: (material) => {
      if (server instanceof TlsServer) server.setSecureContext(material.options)
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

/** Notes when the certificate of a connecting controller expires: it may be renewed on a schedule of its own. */
function noteControllers(server: Server, ends: CertificateEnds): void {
  server.on('secureConnection', (socket: TLSSocket) => {
    const end = socket.getPeerX509Certificate()?.validToDate.getTime()
    // A resumed session may come without a certificate.
    if (socket.authorized && end !== undefined) ends.set('controller', end)
  })
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
