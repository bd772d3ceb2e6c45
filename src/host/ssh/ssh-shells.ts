import { connect } from 'node:net'
import { limits } from '../../config/limits.ts'
import type { GuestShells, ShellOutcome, ShellRequest } from '../../ports/guest-shells.ts'

/** The port of SSH (RFC 4253, section 4.1). */
const SSH_PORT = 22

export type SshShellsOptions = {
  /** The private key in OpenSSH's format. It is never printed. */
  readonly privateKey: string
  /** For tests: the guests' port, the time limit for connecting, and the fields of `ConnectingOptions`. */
  readonly port?: number
  readonly connectMs?: number
  readonly bytesPerSecond?: number
  readonly keepaliveMs?: number
}

/** Opens shells over SSH (RFC 4251 to 4254), each on its own connection. */
export class SshShells implements GuestShells {
  readonly #options: SshShellsOptions

  constructor(options: SshShellsOptions) {
    this.#options = options
  }

  /**
   * Tries once. A guest without an SSH server refuses at once, and that answer is more useful than a wait. A sleeping
   * guest answers when it is awake. Rejects with the signal's reason on abort.
   */
  async open(request: ShellRequest, signal: AbortSignal): Promise<ShellOutcome> {
    // The library takes some 5 MiB, and most hosts never open a shell.
    const { Connecting } = await import('./connecting.ts')
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
