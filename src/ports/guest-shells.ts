import type { WindowSize } from '../core/console/window-size.ts'
import type { SshFailure } from '../core/console/ssh-failure.ts'

export type ShellRequest = {
  /** The guest's own address, IPv4 or IPv6. */
  readonly address: string
  readonly user: string
  readonly window: WindowSize
  /** Told the fingerprint of the guest's host key in the handshake; the connection goes on only where it says true. */
  readonly acceptHostKey: (fingerprint: HostKeyFingerprint) => boolean
}

/** As OpenSSH prints it, e.g. `SHA256:` and 43 characters of base64 (RFC 4648, no padding). */
export type HostKeyFingerprint = string

export type ShellOutcome =
  | { readonly ok: true; readonly value: GuestShell }
  | { readonly ok: false; readonly error: SshFailure }

/** Login shells in guests, over SSH, with the daemon's own key. */
export interface GuestShells {
  /** The daemon's public key in the form of authorized_keys (sshd(8)). */
  readonly publicKey: string
  /** Connects, logs in and starts a shell on a pty. A failure is a result: what to tell the viewer. */
  open(request: ShellRequest, signal: AbortSignal): Promise<ShellOutcome>
}

/** One shell. Nothing in it blocks. */
export interface GuestShell {
  /** Given once, at once after `open`; what came before that is kept. `onEnd` comes once, after the last output. */
  attach(listeners: { onOutput: (bytes: Uint8Array) => void; onEnd: (end: ShellEnd) => void }): void
  write(bytes: Uint8Array): void
  /** Input that the guest has not taken yet, in bytes. */
  readonly inputWaiting: number
  /** Hears that waiting input fell below the limit again. */
  onInputRoom(listener: () => void): void
  resize(size: WindowSize): void
  /** Holds the guest's output back, in the guest, until `resume`. */
  pause(): void
  resume(): void
  close(): void
}

/** `exited`: the shell's own end. `lost`: the connection broke. */
export type ShellEnd =
  | { readonly kind: 'exited'; readonly status: number }
  | { readonly kind: 'killed'; readonly signal: string }
  | { readonly kind: 'lost'; readonly because: string }
