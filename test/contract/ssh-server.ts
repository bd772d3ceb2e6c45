import { once } from 'node:events'
import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:net'
import { limits } from '../../src/config/limits.ts'
import { fingerprintOf } from '../../src/host/ssh/connecting.ts'
import { renderPrivateKey } from '../../src/host/ssh/openssh-key.ts'
import { Server, utils } from '../../src/host/ssh/ssh2.ts'
import type { AddressInfo, Server as NetServer, Socket } from 'node:net'
import type { AuthContext, Connection, ServerChannel, Session } from '../../src/host/ssh/ssh2.ts'
import type { ShellEnd } from '../../src/ports/guest-shells.ts'
import type { WindowSize } from '../../src/core/console/console-viewer.ts'

/** A key pair in the formats that SSH programs read. */
export function newSshKey(): { readonly privateKey: string; readonly publicKey: string } {
  const privateKey = renderPrivateKey(generateKeyPairSync('ed25519').privateKey, 'test')
  return { privateKey, publicKey: `ssh-ed25519 ${publicPartOf(privateKey).toString('base64')}` }
}

export type GuestMood =
  | 'well'
  | 'refusing shells'
  | 'refusing terminals'
  | 'silent'
  | 'hanging up'
  | 'taking no bytes'
  | 'flooding before the shell'
  | 'sending what comes after the end'
  | 'never hanging up'

/** An SSH server on loopback, like the one in a guest; the test controls each shell. */
export class SshServer {
  readonly #authorized: Buffer
  readonly #sockets = new Set<Socket>()
  readonly #connections: Connection[] = []
  #server: NetServer
  #hostKey = newSshKey().privateKey
  /** Behaviour towards incoming connections. */
  mood: GuestMood = 'well'
  users: readonly string[] = ['root']
  readonly shells: ServedShell[] = []
  /** How many sessions clients have opened. */
  sessionCount = 0
  port = 0

  private constructor(authorized: Buffer) {
    this.#authorized = authorized
    this.#server = this.#makeServer()
  }

  /** @param authorizedKey one line of authorized_keys */
  static async start(authorizedKey: string): Promise<SshServer> {
    const server = new SshServer(publicPartOf(authorizedKey))
    await server.listen()
    return server
  }

  get fingerprint(): string {
    return fingerprintOf(publicPartOf(this.#hostKey))
  }

  /** The bytes that clients have sent on the connections that are open. */
  get bytesHeard(): number {
    return [...this.#sockets].reduce((sum, socket) => sum + socket.bytesRead, 0)
  }

  changeHostKey(): void {
    this.#hostKey = newSshKey().privateKey
  }

  get connectionCount(): number {
    return this.#sockets.size
  }

  async listen(): Promise<void> {
    this.#server = this.#makeServer()
    this.#server.listen(this.port, '127.0.0.1')
    await once(this.#server, 'listening')
    this.port = (this.#server.address() as AddressInfo).port
  }

  /** Closes the listener; can be repeated. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.breakConnections()
    await closed
  }

  /** Stops reading input, like a paused guest. */
  stall(): void {
    for (const socket of this.#sockets) socket.pause()
  }

  /** Begins a key exchange on each connection, and stops reading before its end. */
  stallInKeyExchange(): void {
    for (const connection of this.#connections) connection.rekey()
    this.stall()
  }

  /** Reads input again. */
  goOn(): void {
    for (const socket of this.#sockets) socket.resume()
  }

  /** Says again and again that the client is authenticated (RFC 4252, section 5.1). */
  authenticateAgain(times: number): void {
    for (const connection of this.#connections) {
      const { _protocol: protocol } = connection as unknown as { readonly _protocol: Raw }
      const { write } = protocol._packetRW
      for (let time = 0; time < times; time += 1) {
        const packet = write.alloc(1)
        packet[write.allocStart] = USERAUTH_SUCCESS
        protocol._cipher.encrypt(write.finalize(packet))
      }
    }
  }

  /** Begins a key exchange whenever one has ended. */
  exchangeKeysWithoutEnd(): void {
    for (const connection of this.#connections) {
      connection.on('rekey', () => setImmediate(() => connection.rekey()))
      connection.rekey()
    }
  }

  /** Sends bytes that are no packet. */
  breakProtocol(): void {
    for (const socket of this.#sockets) socket.write(Buffer.alloc(64, 'x'))
  }

  breakConnections(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #makeServer(): NetServer {
    return createServer((socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
      socket.on('error', () => {})
      if (this.mood === 'never hanging up') socket.allowHalfOpen = true
      if (this.mood === 'silent') socket.resume()
      else if (this.mood === 'hanging up') socket.resume().end()
      else new Server({ hostKeys: [this.#hostKey] }, (ssh) => this.#serve(ssh)).injectSocket(socket)
    })
  }

  #serve(connection: Connection): void {
    this.#connections.push(connection)
    connection.on('error', () => {})
    connection.on('authentication', (context: AuthContext) => {
      const isKnown =
        context.method === 'publickey' &&
        this.users.includes(context.username) &&
        context.key.data.equals(this.#authorized)
      if (isKnown) context.accept()
      else context.reject(['publickey'])
    })
    if (this.mood === 'taking no bytes') takeNoBytes(connection)
    connection.on('session', (accept) => this.#serveSession(connection, accept()))
  }

  #serveSession(connection: Connection, session: Session): void {
    this.sessionCount += 1
    if (this.mood === 'sending what comes after the end') return sendAfterEnd(connection, session)
    const sizes: WindowSize[] = []
    session.on('pty', (accept, reject, { cols, rows }) => {
      sizes.push({ cols, rows })
      if (this.mood === 'refusing terminals') reject()
      else accept()
    })
    session.on('window-change', (accept, _reject, { cols, rows }) => {
      sizes.push({ cols, rows })
      // The client requested no reply (RFC 4254, section 6.7), so none can be given.
      ;(accept as (() => void) | undefined)?.()
    })
    session.on('shell', (accept, reject) => {
      if (this.mood === 'refusing shells') reject()
      else if (this.mood === 'flooding before the shell') flood(connection, session)
      else this.shells.push(new ServedShell(accept(), sizes, () => this.breakConnections()))
    })
  }
}

type Confirm = (remote: number, local: number, window: number, packetBytes: number) => void

/** Lets a server confirm channels that take packets of no bytes. */
function takeNoBytes(connection: Connection): void {
  const { _protocol: protocol } = connection as unknown as { _protocol: { channelOpenConfirm: Confirm } }
  const confirm = protocol.channelOpenConfirm.bind(protocol)
  protocol.channelOpenConfirm = (remote, local, window) => confirm(remote, local, window, 0)
}

const USERAUTH_SUCCESS = 52

/** How ssh2 writes a packet. */
type Raw = {
  readonly _packetRW: {
    readonly write: {
      readonly allocStart: number
      readonly alloc: (bytes: number) => Buffer
      readonly finalize: (packet: Buffer) => Buffer
    }
  }
  readonly _cipher: { readonly encrypt: (packet: Buffer) => void }
}

type Sending = {
  readonly _protocol: {
    channelData: (id: number, bytes: Buffer) => void
    channelEOF: (id: number) => void
    channelExtData: (id: number, bytes: Buffer, type: number) => void
  }
}
type Opened = { readonly _chanInfo: { readonly outgoing: { readonly id: number } } }

/** Sends output on a channel whose shell is not granted, and heeds no window. */
function flood(connection: Connection, session: Session): void {
  const { _protocol: protocol } = connection as unknown as Sending
  const { _chanInfo: channel } = session as unknown as Opened
  const bytes = Buffer.alloc(32 * 1024)
  for (let sent = 0; sent < 2 * limits.sshKeptBytesMax; sent += bytes.length)
    protocol.channelData(channel.outgoing.id, bytes)
}

const EXTENDED_DATA_STDERR = 1

/** Ends the output of a channel whose shell is not granted, and sends some on its standard error. */
function sendAfterEnd(connection: Connection, session: Session): void {
  const { _protocol: protocol } = connection as unknown as Sending
  const { id } = (session as unknown as Opened)._chanInfo.outgoing
  protocol.channelEOF(id)
  protocol.channelExtData(id, Buffer.from('x'), EXTENDED_DATA_STDERR)
}

/** One shell, from the guest's side. */
export class ServedShell {
  readonly sizes: readonly WindowSize[]
  readonly #channel: ServerChannel
  readonly #breakConnection: () => void
  input = Buffer.alloc(0)
  isClosed = false

  constructor(channel: ServerChannel, sizes: readonly WindowSize[], breakConnection: () => void) {
    this.#channel = channel
    this.sizes = sizes
    this.#breakConnection = breakConnection
    channel.on('data', (bytes: Buffer) => {
      this.input = Buffer.concat([this.input, bytes])
    })
    channel.on('close', () => {
      this.isClosed = true
    })
    channel.on('error', () => {})
  }

  say(text: string | Uint8Array): void {
    this.#channel.write(text)
  }

  complain(text: string): void {
    this.#channel.stderr.write(text)
  }

  get unsent(): number {
    return this.#channel.writableLength
  }

  readInput(reading: boolean): void {
    if (reading) this.#channel.resume()
    else this.#channel.pause()
  }

  /** Ends like a shell, with a status or by a signal; or breaks the connection without a message. */
  end(end: ShellEnd): void {
    if (end.kind === 'lost') return this.#breakConnection()
    if (end.kind === 'exited') this.#channel.exit(end.status)
    else this.#channel.exit(end.signal.replace(/^SIG/, ''), false, '')
    this.#channel.end()
  }

  /** Ignores the window that it was given (RFC 4254, section 5.2). */
  ignoreWindow(): void {
    const outgoing: unknown = Reflect.get(this.#channel, 'outgoing')
    if (typeof outgoing === 'object' && outgoing !== null)
      Reflect.set(outgoing, 'window', Number.MAX_SAFE_INTEGER)
  }

  /** Ends without saying how. */
  endSilently(): void {
    this.#channel.end()
  }
}

/** Public key in the wire form of SSH (RFC 4253, section 6.6). */
function publicPartOf(key: string): Buffer {
  const parsed = utils.parseKey(key)
  if (parsed instanceof Error) throw parsed
  return parsed.getPublicSSH()
}
