import type { WindowSize } from '../core/console/console-viewer.ts'
import type { SshFailure } from '../core/console/guest-ssh.ts'
import type { Result } from '../lib/result.ts'

export type ShellRequest = {
  /** The guest's own address, IPv4 or IPv6. */
  readonly address: string
  readonly user: string
  readonly window: WindowSize
  /**
   * Gets the fingerprint of the guest's host key in the handshake. The connection continues only if this returns true.
   */
  readonly acceptHostKey: (fingerprint: HostKeyFingerprint) => boolean
}

/** A fingerprint as OpenSSH prints it, e.g. `SHA256:` and 43 characters of base64 (RFC 4648, no padding). */
export type HostKeyFingerprint = string

export type ShellOutcome = Result<GuestShell, SshFailure>

/** Login shells in guests, over SSH, with the daemon's own key. */
export interface GuestShells {
  /** Connects, logs in and starts a shell on a pty. A failure is a result, for the viewer. */
  open(request: ShellRequest, signal: AbortSignal): Promise<ShellOutcome>
}

/** One shell. Nothing in it blocks. */
export interface GuestShell {
  /**
   * Attaches the listeners, once, at once after `open`; output from before is kept. `onEnd` is called once, after the
   * last output.
   */
  attach(listeners: { onOutput: (bytes: Uint8Array) => void; onEnd: (end: ShellEnd) => void }): void
  write(bytes: Uint8Array): void
  /** Input that the guest has not accepted yet, in bytes. */
  readonly inputWaiting: number
  /** Calls the listener when waiting input is below the limit again. */
  onInputRoom(listener: () => void): void
  resize(size: WindowSize): void
  /** Holds the guest's output back, in the guest, until `resume`. */
  pause(): void
  resume(): void
  close(): void
}

/** `exited`: the shell ended by itself. `lost`: the connection broke. */
export type ShellEnd =
  | { readonly kind: 'exited'; readonly status: number }
  | { readonly kind: 'killed'; readonly signal: string }
  | { readonly kind: 'lost'; readonly because: string }
