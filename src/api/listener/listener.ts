import { once } from 'node:events'
import { Server as TlsServer } from 'node:https'
import { listenAt } from './listen-at.ts'
import { readTlsFiles, watchTlsFiles } from './tls-files.ts'
import { answerWhileStarting } from './starting-answers.ts'
import { tlsTransport } from './transports.ts'
import { TrustedPeers } from './trusted-peers.ts'
import { given } from '../../lib/given.ts'
import type { RequestListener, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import type { Log } from '../../log/log.ts'
import type { App, Transport } from './app.ts'
import type { Pages } from './problem-page.ts'
import type { RevocationState } from './revocations.ts'
import type { TlsFiles, TlsMaterial } from './tls-files.ts'
import type { Admit, BeginsUpgrade, HasRoom, TlsTransport } from './transports.ts'

/** Where a listener is, and which certificates it uses. */
export type ListenerPlace = {
  readonly address: string
  /** 0 lets the kernel choose. */
  readonly port: number
  readonly tlsFiles: TlsFiles
  /** Interval at which the certificate files are read; for tests. */
  readonly certificateRecheckMs?: number
}

export type BindOptions = ListenerPlace & {
  readonly admit: Admit
  readonly beginsUpgrade: BeginsUpgrade
  /** Unless given, every verified client has room. */
  readonly hasRoom?: HasRoom
  /** The version of this build. */
  readonly version: string
  /** Where browsers get refusals as pages while there is no API. */
  readonly pages?: Pages
  readonly log: Log
}

/** The certificates of a listener. */
export type CertificatesSeen = {
  readonly inUse: TlsMaterial
  /** Why the files are not in use; undefined if they are. */
  readonly refused: unknown
  readonly revocations: () => RevocationState | undefined
}

/** The API of a listener, and the callbacks for its certificates and connections. */
export type ServedApi = {
  readonly createApp: (transport: Transport) => Promise<App>
  /** Called at the start, and each time that the certificate files were read. */
  readonly onCertificates?: (seen: CertificatesSeen) => void
  /** Called for each connection with a verified client certificate. `isRevoked` says whether it is revoked by now. */
  readonly onConnection?: (socket: TLSSocket, isRevoked: () => boolean) => void
}

/** A running listener. */
export type Listener = {
  readonly address: string
  readonly port: number
  /**
   * Takes no new connections, lets running requests end, and closes all that is left after `boundMs`, upgraded
   * connections too.
   */
  close(boundMs: number): Promise<void>
}

/** Serves an API over TLS. Throws TlsFilesUnusable, or the error of listen(2). */
export async function startListener(options: BindOptions & ServedApi): Promise<Listener> {
  const bound = await BoundListener.bind(options)
  return bound.serve(options)
}

/** A listener that is bound. Until it is given its API, it answers that it is alive and starting. */
export class BoundListener {
  readonly #options: BindOptions
  readonly #tls: TlsMaterial
  readonly #peers: TrustedPeers
  readonly #transport: TlsTransport
  readonly #server: Server
  /** The API, once there is one. */
  #api: RequestListener | undefined
  #onConnection: ServedApi['onConnection']

  private constructor(options: BindOptions, tls: TlsMaterial, peers: TrustedPeers) {
    const { admit, beginsUpgrade, hasRoom = () => true, version, pages, log } = options
    this.#options = options
    this.#tls = tls
    this.#peers = peers
    this.#transport = tlsTransport({
      secure: tls.options,
      admit,
      beginsUpgrade: (request) => this.#api !== undefined && beginsUpgrade(request),
      isRevoked: (socket) => peers.isRevoked(socket),
      hasRoom,
      log,
    })
    const starting = answerWhileStarting({ transport: this.#transport, version, ...given({ pages }), log })
    this.#server = this.#transport.createServer((request, response) =>
      (this.#api ?? starting)(request, response),
    )
    this.#server.on('secureConnection', (socket: TLSSocket) => {
      if (!socket.authorized || socket.destroyed) return
      peers.watch(socket)
      this.#onConnection?.(socket, peers.revocationOf(socket))
    })
  }

  /** Throws TlsFilesUnusable, or the error of listen(2). */
  static async bind(options: BindOptions): Promise<BoundListener> {
    const { tlsFiles, address, port, log } = options
    const tls = readTlsFiles(tlsFiles)
    const peers = await TrustedPeers.open({ tls, ...given({ revocationsPath: tlsFiles.revocations }), log })
    const bound = new BoundListener(options, tls, peers)
    const found = await listenAt(bound.#server, address, port)
    if (found !== address)
      log.info(
        { address: found, port: bound.port },
        'IPv6 not found in this kernel: listening at the addresses of IPv4 alone',
      )
    return bound
  }

  get address(): string {
    return (this.#server.address() as AddressInfo).address
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Serves an API from now on, on the connections that are there too. If that fails, it is closed. */
  async serve({ createApp, onCertificates, onConnection }: ServedApi): Promise<Listener> {
    const app = await this.#createApp(createApp)
    const upgraded = upgradedSockets(this.#server)
    this.#onConnection = onConnection
    for (const socket of this.#peers.connected) onConnection?.(socket, this.#peers.revocationOf(socket))
    const stopWatching = this.#watchCertificates(onCertificates)
    return {
      address: this.address,
      port: this.port,
      close: async (boundMs) => {
        stopWatching()
        this.#transport.endHandshakes()
        const bound = setTimeout(() => {
          this.#endConnections()
          for (const socket of upgraded) socket.destroy()
        }, boundMs)
        const closed = once(this.#server, 'close')
        await app.close()
        await closed
        clearTimeout(bound)
      },
    }
  }

  /** Closes it at once, with its connections. Only for one that serves no API. */
  close(): void {
    this.#server.close()
    this.#endConnections()
  }

  async #createApp(create: ServedApi['createApp']): Promise<App> {
    let api: RequestListener | undefined
    try {
      const app = await create({
        ...this.#transport,
        createServer: (handler) => {
          api = handler
          return this.#server
        },
        stopListening: () => {
          this.#server.close()
        },
      })
      // Only now, because an app that is not ready fails.
      this.#api = api
      return app
    } catch (error) {
      this.close()
      throw error
    }
  }

  #watchCertificates(onCertificates: ServedApi['onCertificates']): () => void {
    const { tlsFiles, certificateRecheckMs, log } = this.#options
    return watchTlsFiles({
      files: tlsFiles,
      current: this.#tls,
      log,
      onChange: (material) => {
        if (this.#server instanceof TlsServer) this.#server.setSecureContext(material.options)
        this.#peers.trust(material)
        // A handshake under way would be judged by the files of before (setSecureContext of node:tls).
        this.#transport.endHandshakes()
      },
      onLook: (inUse, refused) => {
        onCertificates?.({ inUse, refused, revocations: () => this.#peers.revocations })
        void this.#peers.look()
      },
      ...given({ recheckMs: certificateRecheckMs }),
    })
  }

  #endConnections(): void {
    this.#transport.endHandshakes()
    this.#server.closeAllConnections()
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
