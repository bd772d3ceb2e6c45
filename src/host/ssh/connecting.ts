import { limits } from '../../config/limits.ts'
import { err, ok } from '../../lib/result.ts'
import { connectFailure, inWords, packetBytesOf, guardAgainstServer, Client } from './ssh2.ts'
import { hangUp, SshShell } from './ssh-shell.ts'
import { watchSocket } from './socket-watch.ts'
import { createHash } from 'node:crypto'
import { TokenBucket } from '../../lib/token-bucket.ts'
import { given } from '../../lib/given.ts'
import type { Socket } from 'node:net'
import type { Algorithms, ClientChannel, SshError } from './ssh2.ts'
import type { SshFailure } from '../../core/console/guest-ssh.ts'
import type { HostKeyFingerprint, ShellOutcome, ShellRequest } from '../../ports/guest-shells.ts'

/**
 * The algorithms that we offer. The order of host keys is a promise: of a guest's several keys, the first in this list
 * is pinned. There is no compression, which would let a guest send much with few bytes. There is no key exchange whose
 * numbers the guest chooses, which would let it decide how long we compute.
 */
const algorithms: Algorithms = {
  serverHostKey: [
    'ssh-ed25519',
    'ecdsa-sha2-nistp256',
    'ecdsa-sha2-nistp384',
    'ecdsa-sha2-nistp521',
    'rsa-sha2-512',
    'rsa-sha2-256',
  ],
  kex: [
    'curve25519-sha256',
    'curve25519-sha256@libssh.org',
    'ecdh-sha2-nistp256',
    'ecdh-sha2-nistp384',
    'ecdh-sha2-nistp521',
    'diffie-hellman-group14-sha256',
  ],
  compress: ['none'],
}

/** The terminal type of viewers: xterm.js, or a compatible terminal. */
const TERMINAL = 'xterm-256color'
const KEEPALIVES_UNANSWERED_MAX = 2

export type ConnectingOptions = {
  readonly privateKey: string
  /** The most bytes per second that are read from one guest. */
  readonly bytesPerSecond?: number
  readonly keepaliveMs?: number
}

/** A connection from its first packet to its shell. */
export class Connecting {
  readonly outcome: Promise<ShellOutcome>
  readonly #settle: (outcome: ShellOutcome) => void
  readonly #client = new Client()
  readonly #socket: Socket
  readonly #request: ShellRequest
  readonly #keyExchanges = new TokenBucket({
    perSecond: 1000 / limits.sshKeyExchangeEveryMs,
    burst: limits.sshKeyExchangesBurst,
    nowMs: performance.now(),
  })
  #hostKey: HostKeyFingerprint | undefined
  #shell: SshShell | undefined
  #isOver = false

  constructor(socket: Socket, request: ShellRequest, options: ConnectingOptions) {
    this.#socket = socket
    this.#request = request
    const { promise, resolve } = Promise.withResolvers<ShellOutcome>()
    this.outcome = promise
    this.#settle = resolve
    this.#client.on('error', (error: SshError) => this.fail(connectFailure(error)))
    this.#client.on('close', () =>
      this.fail({ kind: 'failed', detail: 'the guest closed the connection before there was a shell' }),
    )
    this.#client.once('ready', () => this.#askForShell())
    this.#client.connect({
      sock: socket,
      username: request.user,
      privateKey: options.privateKey,
      authHandler: ['publickey'],
      algorithms,
      hostVerifier: (key: Buffer) => this.#acceptHostKey(fingerprintOf(key)),
      keepaliveInterval: options.keepaliveMs ?? limits.sshKeepaliveMs,
      keepaliveCountMax: KEEPALIVES_UNANSWERED_MAX,
      // The caller's deadline covers everything, including the shell.
      readyTimeout: 0,
    })
    const onFlood = (): void => this.#cutOff('the guest sends more than SSH lets it')
    guardAgainstServer(this.#client, onFlood)
    watchSocket(this.#client, socket, {
      shellBytes: () => this.#shell?.keptBytes,
      onFlood,
      ...given({ bytesPerSecond: options.bytesPerSecond }),
    })
  }

  /** Ends the connecting. The first reason is kept. Does nothing if there is a shell already. */
  fail(failure: SshFailure): void {
    if (this.#isOver) return
    this.#isOver = true
    hangUp(this.#client, this.#socket)
    // A socket that is still connecting has no peer that could be notified.
    if (this.#socket.connecting) this.#socket.destroy()
    this.#settle(err(failure))
  }

  /**
   * Checks the host key. It is also called at each new key exchange, and then accepts only the same key. The guest
   * begins them as it likes, and each keeps a processor busy for a millisecond or more.
   */
  #acceptHostKey(hostKey: HostKeyFingerprint): boolean {
    if (!this.#keyExchanges.take(performance.now())) {
      this.#cutOff('the guest exchanges keys too often')
      return false
    }
    if (this.#hostKey !== undefined) return hostKey === this.#hostKey
    if (!this.#request.acceptHostKey(hostKey)) {
      this.fail({ kind: 'host_key_refused', detail: `the host key ${hostKey} is not accepted` })
      return false
    }
    this.#hostKey = hostKey
    return true
  }

  #askForShell(): void {
    const { cols, rows } = this.#request.window
    const window = { cols, rows, width: 0, height: 0, term: TERMINAL }
    this.#client.shell(window, (error, channel) => {
      if (error !== undefined) return this.fail({ kind: 'shell_refused', detail: inWords(error) })
      const packetBytes = packetBytesOf(channel)
      // ssh2 sends input in packets of the length that the guest names, and with 0 it would never come to an end.
      if (Number(packetBytes) >= limits.sshPacketBytesMin) return this.#begin(channel)
      this.#cutOff(`the guest takes only ${Number(packetBytes)} bytes in a packet`)
    })
  }

  #begin(channel: ClientChannel): void {
    const shell = new SshShell(this.#client, this.#socket, channel)
    if (this.#isOver) return shell.close()
    this.#isOver = true
    this.#shell = shell
    this.#settle(ok(shell))
  }

  #cutOff(because: string): void {
    this.#shell?.cutOff(because)
    if (this.#shell !== undefined) return
    this.fail({ kind: 'failed', detail: because })
    this.#socket.destroy()
  }
}

/**
 * Computes the fingerprint of a public key in its wire form (RFC 4253, section 6.6), as OpenSSH prints it: unpadded
 * base64 of its SHA-256.
 */
export const fingerprintOf = (key: Uint8Array): HostKeyFingerprint =>
  `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`
