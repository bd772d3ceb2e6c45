import { connect } from 'node:net'
import { limits } from '../../config/limits.ts'
import { Connecting } from './connecting.ts'
import type { GuestShells, ShellOutcome, ShellRequest } from '../../ports/guest-shells.ts'

/** The port of SSH (RFC 4253, section 4.1). */
const SSH_PORT = 22

export type SshShellsOptions = {
  /** In the format of OpenSSH. Never printed. */
  readonly privateKey: string
  /** In the form of authorized_keys (sshd(8)). */
  readonly publicKey: string
  /** For tests: where guests listen, how long connecting may take, and what `ConnectingOptions` has. */
  readonly port?: number
  readonly connectMs?: number
  readonly bytesPerSecond?: number
  readonly keepaliveMs?: number
}

/** Shells over SSH (RFC 4251 to 4254), each on a connection of its own. */
export class SshShells implements GuestShells {
  readonly publicKey: string
  readonly #options: SshShellsOptions

  constructor(options: SshShellsOptions) {
    this.publicKey = options.publicKey
    this.#options = options
  }

  /**
   * Tried once: what is not there yet refuses at once, and to know that is worth more than to wait for it; a guest that
   * sleeps answers when it is awake. Rejects with the signal's reason on abort.
   */
  async open(request: ShellRequest, signal: AbortSignal): Promise<ShellOutcome> {
    signal.throwIfAborted()
    const { port = SSH_PORT, connectMs = limits.sshConnectMs, ...options } = this.#options
    const socket = connect({ host: request.address, port, noDelay: true })
    const connecting = new Connecting(socket, request, options)
    const { promise: aborted, reject } = Promise.withResolvers<never>()
    const onAbort = (): void => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    const deadline = setTimeout(
      () => connecting.fail({ kind: 'timed_out', detail: `no shell after ${connectMs} ms` }),
      connectMs,
    )
    try {
      return await Promise.race([connecting.outcome, aborted])
    } catch (error) {
      connecting.fail({ kind: 'failed', detail: 'the viewer has gone' })
      throw error
    } finally {
      clearTimeout(deadline)
      signal.removeEventListener('abort', onAbort)
    }
  }
}
